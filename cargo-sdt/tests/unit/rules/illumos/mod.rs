//! Modules for illumos that are good except for one change.

mod fixture;
mod probes;
mod relocations;
mod symbols;

use object::elf;
use proptest::prelude::*;

use super as rules;
use crate::check::{self, Against, Finding, IllumosSummary, Kernel, illumos_module};
use crate::platform::Os;
use fixture::{Fixture, READ_ONLY, WRITABLE, with_header};

/// Checks a module by itself.
fn module(file: &[u8]) -> Result<IllumosSummary, Vec<Finding>> {
    illumos_module(file, Against::default())
}

/// Returns the findings in a file.
fn said_of(file: &[u8]) -> Vec<String> {
    rules::said_of(module(file).map(|summary| summary.warnings))
}

/// Returns the only finding in the fixture after a change.
fn only(change: impl FnOnce(&mut Fixture)) -> String {
    let mut fixture = Fixture::good();
    change(&mut fixture);
    only_of(&fixture.file())
}

fn only_of(file: &[u8]) -> String {
    let mut said = said_of(file);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

#[test]
fn the_fixture_is_good() {
    let file = Fixture::good().file();
    assert_eq!(Os::of_file(&file), Os::Illumos);
    let summary = module(&file).unwrap();
    assert_eq!(
        summary.to_string(),
        "for illumos, route native, depends on misc/mac, drv/ip; 1 site: proc:::exec-success; 32 bytes"
    );
}

#[test]
fn files_that_are_no_objects() {
    for file in [&b""[..], b"#!/bin/sh\n", &[0; 64], &[0x7f; 200]] {
        assert!(said_of(file)[0].starts_with("not a readable object file: "));
    }
}

#[test]
fn other_machines_and_types() {
    let line = only(|f| f.builder.header.e_type = elf::ET_DYN);
    assert_eq!(line, "the type is 3; krtld supports relocatable files (ET_REL, 1) only");
    let line = only(|f| f.builder.header.e_machine = elf::EM_AARCH64);
    assert_eq!(line, "the machine is 183; krtld supports x86-64 (62) only");
    let mut file = Fixture::good().file();
    file[5] = 2;
    assert_eq!(only_of(&file), "the byte order is 2; krtld supports little-endian (1) only");
}

#[test]
fn section_numbers_that_are_not_there() {
    let mut file = Fixture::good().file();
    let mut at = None;
    with_header(file.clone(), ".symtab", |header| {
        assert_eq!(header[4], 2);
    });
    // The first global symbol is `_init`: its name's offset is where the string is.
    for offset in (0..file.len() - 24).step_by(8) {
        // value 0, size 12, a global function.
        if file[offset + 4] == 0x12
            && file[offset + 16] == 12
            && file[offset + 8..offset + 16] == [0; 8]
        {
            at = Some(offset);
        }
    }
    let at = at.expect("the symbol of _init");
    file[at + 6..at + 8].copy_from_slice(&99u16.to_le_bytes());
    let said = said_of(&file);
    assert_eq!(
        said[0],
        "symbol _init: is in section 99, which does not exist; the loader refuses the module, or crashes"
    );
}

#[test]
fn modules_of_another_system() {
    let against = Against { file: None, kernel: &Kernel::default() };
    let checked = check::module(Os::FreeBsd, &Fixture::good().file(), against);
    let said = rules::said_of(checked.map(|_| Vec::new()));
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("is a module for illumos, not for "), "{said:#?}");
}

#[test]
fn frames_behind_the_first_instruction() {
    let line = only(|f| {
        // A `ret`, and `push %rbp` behind it.
        f.bytes(".text")[13] = 0x55;
        f.symbol_named("_info").st_size = 2;
    });
    assert!(line.starts_with("warning: symbol _info: fbt uses 0x1 as the entry "), "{line}");
}

#[test]
fn relocations_with_an_address() {
    let file = with_header(Fixture::good().file(), ".rela.text", |header| header[16] = 0x58);
    let line = only_of(&file);
    assert!(line.starts_with(".rela.text: relocations with address 0x58; krtld "), "{line}");
}

#[test]
fn section_types() {
    let line = only(|f| {
        f.section(".init_array", WRITABLE, vec![0; 8]);
        f.named(".init_array").sh_type = elf::SHT_INIT_ARRAY;
    });
    assert!(line.starts_with(".init_array: a list of constructors or destructors; "), "{line}");
    let line = only(|f| {
        f.section(".note", READ_ONLY, vec![0; 16]);
        f.named(".note").sh_type = elf::SectionType(0x6fff_fff0);
    });
    assert!(line.starts_with(".note: of type 0x6ffffff0, which krtld "), "{line}");
    let file = with_header(
        {
            let mut fixture = Fixture::good();
            fixture.note(".group", &[1, 0, 0, 0]);
            fixture.file()
        },
        ".group",
        |header| header[4] = elf::SHT_GROUP.0 as u8,
    );
    assert!(only_of(&file).starts_with(".group: of type 0x11, "));
    let file = with_header(
        {
            let mut fixture = Fixture::good();
            fixture.note(".symtab_shndx", &[0; 4]);
            fixture.file()
        },
        ".symtab_shndx",
        |header| header[4] = elf::SHT_SYMTAB_SHNDX.0 as u8,
    );
    assert!(said_of(&file)[0].starts_with(".symtab_shndx: of type 0x12, "), "{:?}", said_of(&file));
}

#[test]
fn protections_and_alignment() {
    let flags = elf::SectionFlags(WRITABLE.0 | elf::SHF_EXECINSTR.0);
    let line = only(|f| f.named(".text").sh_flags = flags);
    assert!(line.starts_with(".text: both writable and executable"), "{line}");
    let tls = elf::SectionFlags(WRITABLE.0 | elf::SHF_TLS.0);
    let line = only(|f| {
        f.section(".tdata", tls, vec![0; 8]);
    });
    assert_eq!(line, ".tdata: thread-local storage; kernel modules cannot have it");
    let line = only(|f| {
        let data = f.data;
        let symbol = f.symbol("counter", Some(data), elf::STB_LOCAL);
        f.builder.symbols.get_mut(symbol).set_st_info(elf::STB_LOCAL, elf::STT_TLS);
    });
    assert_eq!(line, "symbol counter: thread-local storage; kernel modules cannot have it");
    let file = with_header(Fixture::good().file(), ".data", |header| header[48] = 3);
    assert!(only_of(&file).starts_with(".data: alignment 3; "));
}

#[test]
fn a_set_in_two_sections() {
    let line = only(|f| {
        f.section("set_linkme_X", WRITABLE, vec![0; 8]);
        f.section("set_linkme_X", READ_ONLY, vec![0; 8]);
    });
    assert_eq!(
        line,
        "set_linkme_X: 2 sections of this name; the bounds of a set are those of one section"
    );
}

#[test]
fn alignments_and_sizes_that_no_kernel_has() {
    for align in [1_u64 << 32, 1 << 40] {
        let file = with_header(Fixture::good().file(), ".text", |header| {
            header[48..56].copy_from_slice(&align.to_le_bytes());
        });
        let line = only_of(&file);
        assert!(
            line.starts_with(&format!(".text: alignment {align}; the loader aligns ")),
            "{line}"
        );
    }
    let mut fixture = Fixture::good();
    fixture.section(".bss", WRITABLE, Vec::new());
    fixture.named(".bss").sh_type = elf::SHT_NOBITS;
    let file = with_header(fixture.file(), ".bss", |header| {
        header[32..40].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    });
    let line = only_of(&file);
    assert!(line.starts_with("needs 1125899906842656 bytes of memory; "), "{line}");
}

#[test]
fn changed_files() {
    let mut file = Fixture::good().file();
    crate::link::seal(&mut file);
    module(&file).expect("as it was linked");
    file[0x40] ^= 1;
    let expected = "the contents do not match the checksum of the link: the file was changed; copy or build it again";
    assert_eq!(only_of(&file), expected);
}

#[test]
fn truncated_files() {
    let file = Fixture::good().file();
    for length in 0..file.len() {
        assert!(module(&file[..length]).is_err(), "{length} of {} bytes", file.len());
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let _ = module(&rules::damaged(Fixture::good().file(), changes, cut));
    }
}
