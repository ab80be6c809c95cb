//! Relocatable files: every rule, broken once.

use object::elf;
use proptest::prelude::*;

use super::module;
use super::relocatable_fixture::{CODE, Fixture, READ_ONLY, TEXT, WRITABLE, relocation};
use crate::check::FreeBsdSummary;
use crate::platform::{FreeBsd, Route};

/// Returns the findings in the fixture after a change.
fn said(change: impl FnOnce(&mut Fixture)) -> Vec<String> {
    let mut fixture = Fixture::good();
    change(&mut fixture);
    super::said_of(module(&fixture.file()).map(|summary| summary.warnings))
}

/// Returns the only finding.
fn only(change: impl FnOnce(&mut Fixture)) -> String {
    let mut said = said(change);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

#[test]
fn the_fixture_is_good() {
    let summary = module(&Fixture::good().file()).unwrap();
    let expected = FreeBsdSummary {
        modules: vec!["proc_example".into()],
        release: FreeBsd::default(),
        route: Some(Route::Provider),
        depends: vec!["kernel".into()],
        providers: 1,
        probes: 1,
        sites: 1,
        size: summary.size,
        says_release: true,
        warnings: Vec::new(),
    };
    assert_eq!(summary, expected);
    assert!(summary.to_string().starts_with(
        "module proc_example for FreeBSD 15, route provider, depends on kernel; 1 provider, 1 probe \
         record, 1 site; "
    ));
}

#[test]
fn files_that_are_no_objects() {
    for file in [&b""[..], b"#!/bin/sh\n", &[0; 64], &[0x7f; 200]] {
        let findings = module(file).unwrap_err();
        assert!(findings[0].to_string().starts_with("not a readable object file: "));
    }
}

#[test]
fn other_machines_and_types() {
    let takes = "FreeBSD's loader for amd64 supports";
    let line = only(|f| f.builder.header.e_type = elf::ET_DYN);
    assert_eq!(line, format!("the type is 3; {takes} relocatable files (ET_REL, 1) only"));
    let line = only(|f| f.builder.header.e_machine = elf::EM_AARCH64);
    let takes = "FreeBSD's loader for arm64 supports";
    assert_eq!(line, format!("the type is 1; {takes} shared objects (ET_DYN, 3) only"));
    let line = only(|f| f.builder.header.e_machine = elf::EM_386);
    let takes = "FreeBSD's loader supports x86-64 (62), AArch64 (183) and RISC-V (243) only";
    assert_eq!(line, format!("the machine is 3; {takes}"));
}

#[test]
fn relocations_through_the_got() {
    let line = only(|f| f.relocations(".rela.text")[0].r_type = elf::R_X86_64_REX_GOTPCRELX);
    assert_eq!(
        line,
        ".text+0x9: relocation R_X86_64_REX_GOTPCRELX against printf: FreeBSD's loader refuses it; \
         build with relocation-model=static"
    );
}

#[test]
fn relocations_of_other_types() {
    for (kind, name, remedy) in [
        (elf::R_X86_64_32, "R_X86_64_32", "code-model=kernel"),
        (elf::R_X86_64_TPOFF32, "R_X86_64_TPOFF32", "cannot have thread-local storage"),
        (elf::R_X86_64_PC64, "R_X86_64_PC64", "use the target files of cargo-sdt"),
        (elf::RelocationType(200), "of type 200", "use the target files"),
    ] {
        let line = only(|f| f.relocations(".rela.text")[0].r_type = kind);
        assert!(line.contains(name) && line.contains(remedy), "{line}");
    }
}

#[test]
fn relocations_past_the_end() {
    let line = only(|f| f.relocations(".rela.text")[0].r_offset = 13);
    let expected = "relocation R_X86_64_PLT32 against printf reaches past the end of the section";
    assert_eq!(line, format!(".text+0xd: {expected}"));
    let line = only(|f| f.relocations(".rela.text")[0].r_offset = u64::MAX);
    assert!(line.ends_with(expected), "{line}");
}

#[test]
fn relocations_to_nowhere() {
    let line = only(|f| f.relocations(".rela.data")[0].r_addend = 17);
    assert_eq!(
        line,
        ".data+0x10: relocation R_X86_64_64 against .text+0x11 points outside the symbol's section"
    );
    let line = only(|f| f.relocations(".rela.text")[0].r_addend = 1 << 31);
    let expected =
        "call of printf+0x80000004: a function of another module must be called at its start";
    assert_eq!(line, format!(".text+0x9: {expected}"));
}

#[test]
fn floating_point() {
    for (bytes, shown) in [
        (&[0x0f, 0x57, 0xc0][..], "xorps %xmm0,%xmm0"),
        (&[0xd9, 0xee], "fldz"),
        (&[0x0f, 0x6f, 0xc1], "movq %mm1,%mm0"),
        (&[0xc5, 0xfc, 0x57, 0xc0], "vxorps %ymm0,%ymm0,%ymm0"),
        (&[0x0f, 0xae, 0x10], "ldmxcsr (%rax)"),
    ] {
        let line = only(|f| {
            f.section(".text.float", CODE, bytes.to_vec());
        });
        assert!(line.starts_with(&format!(".text.float+0x0: `{shown}` uses ")), "{line}");
    }
}

#[test]
fn much_floating_point_is_summed_up() {
    let said = said(|f| {
        f.section(".text.float", CODE, [0x0f, 0x57, 0xc0].repeat(9));
    });
    assert_eq!(said.len(), 6);
    assert_eq!(said[5], ".text.float: 4 more such instructions");
}

#[test]
fn a_set_in_two_sections() {
    let line = only(|f| {
        f.section("linkme_SDT_PROBES", READ_ONLY, Vec::new());
    });
    let expected = "2 sections of this name; FreeBSD's loader finds the first one only";
    assert_eq!(line, format!("linkme_SDT_PROBES: {expected}"));
}

#[test]
fn sets_of_pieces_and_odd_alignment() {
    let line = only(|f| f.data("set_sysinit_set").push(0));
    assert_eq!(
        line,
        "set_sysinit_set: 9 bytes are not a multiple of the size of pointers (8 bytes each)"
    );
    let line = only(|f| f.named("sdt_sites").sh_addralign = 4);
    assert_eq!(line, "sdt_sites: alignment 4 is too small for site records (8)");
    let line = only(|f| f.data("linkm2_SDT_PROBES").resize(16, 0));
    assert_eq!(
        line,
        "linkm2_SDT_PROBES: the slice is declared 2 times, which linkme refuses at run time; declare it once"
    );
}

#[test]
fn set_elements_that_point_nowhere() {
    let line = only(|f| f.data("set_modmetadata_set").resize(24, 0));
    let expected = "set_modmetadata_set+0x10: an element is not the address of anything in this";
    assert_eq!(line, format!("{expected} module"));
    let line = only(|f| f.named(".data").sh_flags = READ_ONLY);
    let expected = "set_sysinit_set+0x0: a struct sysinit points into .data, which is not writable";
    assert_eq!(line, expected);
}

#[test]
fn sites_of_the_wrong_size() {
    let line = only(|f| f.data("sdt_sites").resize(40, 0));
    assert_eq!(
        line,
        "sdt_sites: 40 bytes are not a multiple of the size of site records (32 bytes each)"
    );
}

#[test]
fn sites_that_are_no_nops() {
    let line = only(|f| f.data(".text")[0] = 0x90);
    assert_eq!(
        line,
        "sdt_sites+0x8: the bytes at the site, 90 1f 44 00 00, are not the 5-byte nop 0f 1f 44 00 \
         00"
    );
    let line = only(|f| f.relocations(".relasdt_sites")[1].r_addend = TEXT.len() as i64 - 2);
    assert!(line.starts_with("sdt_sites+0x8: the bytes at the site, f6 cc, are"), "{line}");
}

#[test]
fn sites_outside_the_code() {
    let line = only(|f| {
        let probe = f.relocations(".relasdt_sites")[0];
        f.relocations(".relasdt_sites")[1].symbol = probe.symbol;
    });
    let place = "sdt_sites+0x8: the site points into linkme_SDT_PROBES, which is not executable";
    assert_eq!(line, place);
}

#[test]
fn sites_without_reach() {
    let line = only(|f| {
        let cold = f.section(".text.unlikely", CODE, vec![0x90]);
        let cold = f.symbol("cold", Some(cold), elf::STB_LOCAL);
        f.relocations(".relasdt_sites")[2] = relocation(16, cold, elf::R_X86_64_64, 0);
    });
    let expected = "sdt_sites+0x10: the site and its cold block are in different sections";
    assert_eq!(line, format!("{expected}, so the site cannot become a jump"));
    let line = only(|f| f.relocations(".relasdt_sites")[2].r_addend = 2);
    assert!(line.contains("the site and its cold block overlap"), "{line}");
}

#[test]
fn sites_without_probe_or_with_a_link() {
    let line = only(|f| {
        f.relocations(".relasdt_sites").remove(0);
    });
    let expected = "sdt_sites+0x0: the site's probe is not the address of anything in this module";
    assert_eq!(line, expected);
    let line = only(|f| f.data("sdt_sites")[24] = 1);
    assert_eq!(line, "sdt_sites+0x18: the site's link is not 0, and the kernel assumes that it is");
}

#[test]
fn records_of_another_version() {
    let line = only(|f| f.data("linkme_SDT_PROBES")[0] += 8);
    assert!(line.starts_with("linkme_SDT_PROBES+0x0: probe record has size "), "{line}");
    let line = only(|f| {
        f.data("linkme_SDT_PROVIDERS").pop();
    });
    assert!(line.contains("are not a multiple of the size of provider"), "{line}");
}

#[test]
fn names_that_dtrace_does_not_take() {
    let line = only(|f| f.data(".rodata")[..4].copy_from_slice(b"a:bc"));
    assert!(
        line.starts_with("linkme_SDT_PROVIDERS+0x8: provider name \"a:bc\" contains ':'"),
        "{line}"
    );
    let line = only(|f| f.data("linkme_SDT_PROBES")[24] = 9);
    assert!(line.contains("probe name \"exec-success\" contains a NUL"), "{line}");
}

#[test]
fn undefined_symbols() {
    let using = |name| {
        move |f: &mut Fixture| {
            let symbol = f.symbol(name, None, elf::STB_GLOBAL);
            f.relocations(".rela.text")[0].symbol = Some(symbol);
        }
    };
    let line = only(using("puts"));
    assert!(line.starts_with("note: uses a symbol, which is not known here: "), "{line}");
    assert!(line.ends_with(", to check it: puts"), "{line}");
    let line = only(using("__start_set_x"));
    assert_eq!(
        line,
        "symbol __start_set_x: undefined bound of section set_x, which does not exist"
    );
    let mut unused = Fixture::good();
    unused.symbol("__start_set_pcpu", None, elf::STB_GLOBAL);
    let summary = module(&unused.file()).expect("the loader looks for what relocations use");
    assert_eq!(summary.warnings, []);
    let mut weak = Fixture::good();
    weak.symbol("sdt_tracepoint_valid", None, elf::STB_WEAK);
    weak.symbol("__stop_sdt_sites", None, elf::STB_GLOBAL);
    module(&weak.file()).expect("the loader gives these symbols a value");
}

#[test]
fn common_symbols() {
    let line = only(|f| {
        let symbol = f.symbol("counter", None, elf::STB_GLOBAL);
        f.builder.symbols.get_mut(symbol).st_shndx = elf::SHN_COMMON;
    });
    assert!(line.starts_with("symbol counter: a common symbol, "), "{line}");
}

#[test]
fn protections_types_and_alignment() {
    let flags = elf::SectionFlags(WRITABLE.0 | elf::SHF_EXECINSTR.0);
    let line = only(|f| f.named(".text").sh_flags = flags);
    assert_eq!(line, ".text: both writable and executable; the loader refuses to map such memory");
    let tls = elf::SectionFlags(WRITABLE.0 | elf::SHF_TLS.0);
    let line = only(|f| {
        f.section(".tdata", tls, vec![0; 8]);
    });
    assert_eq!(line, ".tdata: thread-local storage; kernel modules cannot have it");
    let mut file = Fixture::good().file();
    let headers = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    // `.text` is the fourth section, `sh_addralign` the last word but one of its header's 64 bytes.
    file[headers + 4 * 64 + 48] = 0;
    let line = module(&file).unwrap_err()[0].to_string();
    assert!(line.starts_with(".text: alignment 0; "), "{line}");
}

#[test]
fn modules_that_are_none() {
    let line = only(|f| f.data(".rodata")[64 + 4] = 3);
    assert!(line.starts_with("warning: no MODULE record in set_modmetadata_set; "), "{line}");
    let lines = said(|f| f.data(".rodata")[64 + 24 + 4] = 9);
    let line = &lines[0];
    assert!(
        line.starts_with(".rodata+0x5c: module metadata of type 9; the known values are 1 "),
        "{line}"
    );
    assert!(lines[1].starts_with("warning: no dependency on kernel; "), "{lines:#?}");
    let line = only(|f| {
        f.named("set_sysinit_set").delete = true;
        f.named(".relaset_sysinit_set").delete = true;
    });
    assert!(line.starts_with("warning: no SYSINIT in set_sysinit_set; "), "{line}");
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
        let _ = module(&super::damaged(Fixture::good().file(), changes, cut));
    }
}
