//! Shared objects: every rule, broken once on each architecture.

use object::elf;
use proptest::prelude::*;

use super::module;
use super::shared_fixture::{
    COLD, CONSTANTS, DATA, Fixture, Relocation, SITES, Segment, Symbol, TEXT, kinds,
};
use crate::arch::Arch;
use crate::check::FreeBsdSummary;
use crate::platform::{FreeBsd, Route};

const ARCHES: [Arch; 2] = [Arch::Aarch64, Arch::Riscv64];

/// Returns the findings in the fixture after a change, which are the same on both architectures.
fn said(change: impl Fn(&mut Fixture)) -> Vec<String> {
    let [first, second] = ARCHES.map(|arch| said_on(arch, &change));
    assert_eq!(first, second);
    first
}

fn said_on(arch: Arch, change: impl Fn(&mut Fixture)) -> Vec<String> {
    let mut fixture = Fixture::good(arch);
    change(&mut fixture);
    super::said_of(module(&fixture.file()).map(|summary| summary.warnings))
}

/// Returns the only finding.
fn only(change: impl Fn(&mut Fixture)) -> String {
    let mut said = said(change);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

fn only_on(arch: Arch, change: impl Fn(&mut Fixture)) -> String {
    let mut said = said_on(arch, change);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

#[test]
fn the_fixture_is_good() {
    for arch in ARCHES {
        let summary = module(&Fixture::good(arch).file()).unwrap();
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
    }
}

#[test]
fn other_types() {
    let line = only_on(Arch::Riscv64, |f| f.kind = elf::ET_REL.0);
    let takes = "FreeBSD's loader for riscv supports shared objects (ET_DYN, 3) only";
    assert_eq!(line, format!("the type is 1; {takes}"));
}

#[test]
fn headers_behind_the_first_page() {
    let line = only(|f| f.headers_at = 0x2400);
    let expected = "program headers end at 0x24e0; FreeBSD's loader reads the first page only";
    assert_eq!(line, expected);
}

#[test]
fn segments_of_other_types() {
    let with = |kind| {
        move |f: &mut Fixture| {
            let (offset, address, file_size, size) = (CONSTANTS, CONSTANTS, 8, 8);
            f.segments.push(Segment { kind, flags: 4, offset, address, file_size, size });
        }
    };
    let line = only(with(elf::PT_INTERP));
    assert_eq!(line, "1 segments of type PT_INTERP; FreeBSD's loader supports 0");
    let line = only(with(elf::PT_TLS));
    assert_eq!(line, "1 segments of type PT_TLS; FreeBSD's loader supports 0");
    let lines = said(|f| {
        f.segments.remove(3);
    });
    let expected = "0 segments of type PT_DYNAMIC; FreeBSD's loader supports 1";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
    assert!(lines[0].starts_with("no DT_HASH in the dynamic section; "), "{lines:#?}");
}

#[test]
fn segments_that_cannot_be_mapped() {
    let reason = |change: fn(&mut Segment)| {
        let lines = said(|f| change(&mut f.segments[1]));
        lines[0].clone()
    };
    for (line, expected) in [
        (reason(|of| of.flags = 7), "is both writable and executable, "),
        (reason(|of| of.size = 8), "is larger in the file than in memory"),
        (reason(|of| of.offset += 8), "cannot be mapped from its offset in the file"),
        (reason(|of| of.size = u64::MAX), "ends beyond the last address"),
        (reason(|of| of.file_size = 1 << 20), "is not completely in the file"),
        (reason(|of| of.address = 0x800), "cannot be mapped from its offset in the file"),
    ] {
        assert!(line.starts_with(&format!("segment 1 {expected}")), "{line}");
    }
    let lines = said(|f| (f.segments[0].file_size, f.segments[0].size) = (0x1001, 0x1001));
    assert_eq!(lines, ["segment 1 shares a page with the previous segment, or precedes it"]);
    let lines = said(|f| f.segments[0].offset = 0x1000);
    let expected = "segment 0 is the first and does not begin with the header of the file";
    assert!(lines.iter().any(|line| line.starts_with(expected)), "{lines:#?}");
}

#[test]
fn memory_that_no_kernel_has() {
    let lines = said(|f| f.segments[2].size = 1 << 50);
    assert!(
        lines.iter().any(|line| line.starts_with("needs ") && line.contains(" bytes of memory; ")),
        "{lines:#?}"
    );
    let line = only(|f| {
        let (offset, address) = (0x2ff8, (1 << 40) + 0xff8);
        let kind = elf::PT_LOAD;
        f.segments.push(Segment { kind, flags: 4, offset, address, file_size: 8, size: 8 });
    });
    assert!(line.starts_with("needs 1099511631872 bytes of memory; "), "{line}");
}

#[test]
fn too_many_segments() {
    let line = only(|f| {
        for page in 3..5 {
            let (offset, address) = (0x2ff8, 0x1000 * page + 0xff8);
            let kind = elf::PT_LOAD;
            f.segments.push(Segment { kind, flags: 4, offset, address, file_size: 8, size: 8 });
        }
    });
    assert_eq!(line, "5 segments of type PT_LOAD; FreeBSD's loader supports 1 to 4");
}

#[test]
fn tables_that_are_missing_or_outside() {
    for (tag, name) in [
        (elf::DT_HASH, "DT_HASH"),
        (elf::DT_SYMTAB, "DT_SYMTAB"),
        (elf::DT_STRTAB, "DT_STRTAB"),
        (elf::DT_RELA, "DT_RELA"),
    ] {
        let lines = said(|f| f.dynamic.retain(|&(of, _)| of != tag));
        let expected = format!("no {name} in the dynamic section; FreeBSD's loader requires it");
        assert!(lines.contains(&expected), "{lines:#?}");
        let lines = said(|f| *f.tag(tag) = 0xffc);
        let expected = format!("{name} is not completely inside a segment");
        assert!(lines.contains(&expected), "{lines:#?}");
    }
    let line = only(|f| f.dynamic.push((elf::DT_REL, 0x600)));
    assert_eq!(line, "REL relocations; the loader supports only RELA on this architecture");
}

#[test]
fn sections_outside_their_segment() {
    let expected =
        "in no segment of its protection, or at another place in the segment than in the file";
    let line = only(|f| f.section("linkm2_SDT_PROBES").flags |= elf::SHF_EXECINSTR.0);
    assert_eq!(line, format!("linkm2_SDT_PROBES: {expected}"));
    let line = only(|f| f.section(".rodata").flags |= elf::SHF_WRITE.0);
    assert_eq!(line, format!(".rodata: {expected}"));
}

#[test]
fn relocations_of_other_types() {
    for (arch, kind, name) in [
        (Arch::Aarch64, elf::R_AARCH64_COPY, "R_AARCH64_COPY"),
        (Arch::Aarch64, elf::R_AARCH64_TLSDESC, "R_AARCH64_TLSDESC"),
        (Arch::Riscv64, elf::R_RISCV_COPY, "R_RISCV_COPY"),
        (Arch::Riscv64, elf::R_RISCV_32, "R_RISCV_32"),
        (Arch::Riscv64, elf::RelocationType(200), "of type 200"),
    ] {
        let line = only_on(arch, |f| f.relocation(DATA + 16).kind = kind);
        let expected = format!(
            ".data+0x10: relocation {name} against module_register_init: FreeBSD's loader refuses it; "
        );
        assert!(line.starts_with(&expected), "{line}");
        let tls = line.ends_with("kernel modules cannot have thread-local storage");
        assert_eq!(tls, name.contains("TLS"), "{line}");
    }
}

#[test]
fn relocations_to_and_at_nowhere() {
    let line = only(|f| {
        let kind = kinds(f.arch).0;
        f.relocations.push(Relocation { address: 0x9000, kind, symbol: 0, addend: 0x1000 });
    });
    assert_eq!(line, "a relocation applies to address 0x9000, where no section is loaded");
    let line = only_on(Arch::Aarch64, |f| {
        let kind = kinds(f.arch).0;
        f.relocations.push(Relocation { address: DATA, kind, symbol: 0, addend: 0x9000 });
    });
    let expected = ".data+0x0: relocation R_AARCH64_RELATIVE against +0x9000 points outside ";
    assert!(line.starts_with(expected), "{line}");
    let line = only(|f| f.relocation(DATA + 16).symbol = 99);
    let expected = "relocation against symbol number 99, which is not in the symbol table";
    assert_eq!(line, format!(".data+0x10: {expected}"));
    let line = only_on(Arch::Aarch64, |f| {
        let kind = kinds(f.arch).0;
        f.relocations.push(Relocation { address: DATA + 44, kind, symbol: 0, addend: 0x1000 });
    });
    assert!(line.ends_with("reaches past the end of the section"), "{line}");
}

#[test]
fn sites() {
    let line = only_on(Arch::Aarch64, |f| f.section(".text").data[0] = 0x3f);
    let expected = "the bytes at the site, 3f 20 03 d5, are not the 4-byte nop 1f 20 03 d5";
    assert_eq!(line, format!("sdt_sites+0x8: {expected}"));
    let line = only_on(Arch::Riscv64, |f| f.section(".text").data[..2].fill(1));
    let expected = "the bytes at the site, 01 01 00 00, are not the 4-byte nop 13 00 00 00";
    assert_eq!(line, format!("sdt_sites+0x8: {expected}"));
    let line = only(|f| f.relocation(SITES + 8).addend = DATA.cast_signed());
    let expected = "the site points into .data, which is not executable";
    assert_eq!(line, format!("sdt_sites+0x8: {expected}"));
    let line = only(|f| f.relocation(SITES + 16).addend = TEXT.cast_signed());
    assert_eq!(
        line,
        "sdt_sites+0x10: the site and its cold block overlap, so the site cannot become a jump"
    );
    let line = only(|f| f.section("sdt_sites").data[24] = 1);
    assert_eq!(line, "sdt_sites+0x18: the site's link is not 0, and the kernel assumes that it is");
    let line = only(|f| f.relocations.retain(|of| of.address != SITES));
    assert!(line.starts_with("sdt_sites+0x0: the site's probe is not the address of "), "{line}");
    // Instructions are at multiples of 4 on aarch64, and at even addresses on riscv64.
    let line = only_on(Arch::Aarch64, |f| f.relocation(SITES + 16).addend = COLD.cast_signed() + 2);
    assert!(line.contains("cannot be connected: address 0x100a is not a multiple of 4"), "{line}");
    let line = only_on(Arch::Riscv64, |f| f.relocation(SITES + 16).addend = COLD.cast_signed() + 1);
    assert!(line.contains("cannot be connected: address 0x1009 is not a multiple of 2"), "{line}");
}

#[test]
fn sites_without_reach() {
    // The cold block is out of reach on riscv64, and in reach on aarch64.
    let far = |f: &mut Fixture| f.stretch_text(1 << 20);
    let mut fixture = Fixture::good(Arch::Aarch64);
    far(&mut fixture);
    module(&fixture.file()).unwrap();
    let line = only_on(Arch::Riscv64, far);
    assert!(
        line.contains("the cold block is 1048576 bytes away, and a jump reaches 10485"),
        "{line}"
    );
}

#[test]
fn native_records() {
    for arch in ARCHES {
        let summary = module(&Fixture::native(arch).file()).unwrap();
        assert_eq!((summary.route, summary.release), (Some(Route::Native), FreeBsd::default()));
        assert_eq!((summary.providers, summary.probes, summary.sites), (1, 1, 1));
        for (change, expected) in [
            (
                (|f| f.relocation(DATA + 0x80 + 8).addend += 8) as fn(&mut Fixture),
                ".data.probe+0x8: the probe's provider is not the address of a record of \
                 set_sdt_providers_set",
            ),
            (
                |f| f.more_symbols.retain(|of| of.name != "__stop_set_sdt_tracepoint_set"),
                "set_sdt_tracepoint_set: __stop_set_sdt_tracepoint_set is not defined; FreeBSD's \
                 loader finds the set by this symbol; refer to it (`.weak`)",
            ),
            (
                |f| {
                    let (name, bind) = ("__sdt_types_77_0_5", elf::STB_LOCAL);
                    f.more_symbols.push(Symbol { name, bind, section: None, value: 0 });
                },
                "sites of one open provider's probe disagree about the type of argument 0; make them agree",
            ),
        ] {
            let mut fixture = Fixture::native(arch);
            change(&mut fixture);
            let findings = module(&fixture.file()).unwrap_err();
            assert_eq!(findings.len(), 1, "{findings:#?}");
            assert_eq!(findings[0].to_string(), expected);
        }
    }
}

#[test]
fn sites_that_the_kernel_finds_too_far() {
    let stretched = |distance| {
        let mut fixture = Fixture::native(Arch::Riscv64);
        fixture.stretch_text(distance);
        module(&fixture.file())
    };
    stretched(1 << 19).expect("half of what a jump can do");
    let findings = stretched((1 << 19) + 2).unwrap_err();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let expected =
        "the site and its cold block are 524290 bytes apart, and FreeBSD's sdt supports 524288, ";
    assert!(findings[0].to_string().contains(expected), "{findings:#?}");
}

#[test]
fn the_hash_table_leads_to_symbols_and_ends() {
    let said_of = |at: usize, value: u32| {
        let mut file = Fixture::good(Arch::Aarch64).file();
        file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        super::said_of(module(&file).map(|summary| summary.warnings))
    };
    // One bucket at 0x408, chains from 0x40c on, the last one of six 0.
    for (at, value, expected) in [
        (0x408, 5, "does not lead to every symbol that the module defines"),
        (0x40c + 4 * 5, 1, "has a chain with a loop"),
        (0x40c + 4 * 5, 77, "names a symbol that does not exist"),
    ] {
        let said = said_of(at, value);
        let expected =
            format!("the hash table {expected}; FreeBSD's loader looks up symbols in it");
        assert!(said.contains(&expected), "{said:#?}");
    }
}

#[test]
fn tables_that_are_not_their_sections() {
    let line = only(|f| f.dynamic.push((elf::DT_INIT_ARRAY, DATA)));
    let expected =
        "DT_INIT_ARRAY of the dynamic section is not section .init_array; the file is damaged";
    assert_eq!(line, expected);
    let line = only(|f| {
        let section = f.section("linkm2_SDT_PROBES");
        section.name = ".rela.plt";
    });
    assert!(
        line.starts_with("DT_JMPREL of the dynamic section is not section .rela.plt; "),
        "{line}"
    );
}

#[test]
fn relocations_of_code_and_functions() {
    let line = only_on(Arch::Riscv64, |f| {
        let kind = kinds(f.arch).0;
        let (address, addend) = (TEXT + 8, CONSTANTS.cast_signed());
        f.relocations.push(Relocation { address, kind, symbol: 0, addend });
    });
    assert!(line.contains(" changes code; build with relocation-model=pic"), "{line}");
    let function =
        |name, value| Symbol { name, bind: elf::STB_LOCAL, section: Some(".text"), value };
    // Before the start of its section.
    let line = only(|f| f.more_symbols.push(function("early", TEXT - 8)));
    assert!(line.starts_with("symbol early: -0x8 is outside of its section, .text, "), "{line}");
}

#[test]
fn bounds_of_sets() {
    let line = only(|f| f.symbols.retain(|of| of.name != "__start_set_sysinit_set"));
    let remedy = "FreeBSD's loader finds the set by this symbol; refer to it (`.weak`)";
    assert_eq!(line, format!("set_sysinit_set: __start_set_sysinit_set is not defined; {remedy}"));
    let line = only(|f| f.more_symbols[1].value -= 8);
    assert_eq!(
        line,
        format!("set_sysinit_set: __stop_set_sysinit_set is somewhere else; {remedy}")
    );
    let line = only(|f| f.relocation(DATA + 40).addend -= 8);
    assert_eq!(line, format!(".data+0x28: __stop_sdt_sites is somewhere else; {remedy}"));
}

#[test]
fn undefined_symbols() {
    let undefined = |name, bind| {
        move |f: &mut Fixture| {
            f.relocation(DATA + 16).symbol = f.symbols.len() as u32;
            f.symbols.push(Symbol { name, bind, section: None, value: 0 });
        }
    };
    let line = only(undefined("puts", elf::STB_GLOBAL));
    assert!(line.ends_with(" to check it: puts"), "{line}");
    // On one architecture only.
    let line = only_on(Arch::Riscv64, undefined("arm64_get_writable_addr", elf::STB_GLOBAL));
    assert!(line.ends_with(" to check it: arm64_get_writable_addr"), "{line}");
    // The loader of shared objects does not define the bounds of sets.
    let line = only(undefined("__start_sdt_sites", elf::STB_GLOBAL));
    assert!(line.ends_with(" to check it: __start_sdt_sites"), "{line}");
    for arch in ARCHES {
        let mut weak = Fixture::good(arch);
        undefined("sdt_tracepoint_valid", elf::STB_WEAK)(&mut weak);
        module(&weak.file()).expect("the loader gives these symbols a value");
    }
}

#[test]
fn code() {
    let with = |word: u32| {
        move |f: &mut Fixture| {
            f.section(".text").data.extend(word.to_le_bytes());
        }
    };
    let line = only_on(Arch::Aarch64, with(0x1e27_0000));
    let expected = "`.inst 0x1e270000` uses vector registers, which kernel code must not touch; ";
    assert!(line.starts_with(&format!(".text+0x10: {expected}")), "{line}");
    let line = only_on(Arch::Aarch64, with(0xaa00_03f2));
    let expected = "`.inst 0xaa0003f2` writes x18, a register that the kernel reserves; use the target files of cargo-sdt";
    assert_eq!(line, format!(".text+0x10: {expected}"));
    let line = only_on(Arch::Riscv64, with(0x02b5_7553));
    let expected = "`.4byte 0x02b57553` uses floating-point or vector registers, ";
    assert!(line.starts_with(&format!(".text+0x10: {expected}")), "{line}");
    let line = only_on(Arch::Riscv64, with(0x822a_0001));
    let expected = "`.2byte 0x822a` writes tp, a register that the kernel reserves; use the target files of cargo-sdt";
    assert_eq!(line, format!(".text+0x12: {expected}"));
}

#[test]
fn data_in_code() {
    for (arch, word) in [(Arch::Aarch64, 0x1e27_0000_u32), (Arch::Riscv64, 0x02b5_7553)] {
        let mut fixture = Fixture::good(arch);
        fixture.section(".text").data.extend([word, word].map(u32::to_le_bytes).concat());
        let mark =
            |name, value| Symbol { name, bind: elf::STB_LOCAL, section: Some(".text"), value };
        fixture.more_symbols.push(mark("$d.1", TEXT + 16));
        module(&fixture.file()).expect("marked as data, which the check does not decode");
        fixture.more_symbols.push(mark("$x.2", TEXT + 20));
        let findings = module(&fixture.file()).unwrap_err();
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert!(findings[0].to_string().starts_with(".text+0x14: "), "{findings:#?}");
    }
}

#[test]
fn modules_that_are_none() {
    let line = only(|f| f.section(".rodata").data[64 + 4] = 3);
    assert!(line.starts_with("warning: no MODULE record in set_modmetadata_set; "), "{line}");
}

#[test]
fn truncated_files() {
    for arch in ARCHES {
        let file = Fixture::good(arch).file();
        for length in 0..file.len() {
            assert!(module(&file[..length]).is_err(), "{length} of {} bytes", file.len());
        }
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        arch in prop::sample::select(&ARCHES),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let _ = module(&super::damaged(Fixture::good(arch).file(), changes, cut));
    }

    /// Most damage concerns the parts that the loader reads first.
    #[test]
    fn no_damage_of_headers_makes_it_panic(
        arch in prop::sample::select(&ARCHES),
        changes in prop::collection::vec((0..0x700_usize, any::<u8>()), 1..8),
    ) {
        let mut file = Fixture::good(arch).file();
        for (at, byte) in changes {
            file[at] = byte;
        }
        let _ = module(&file);
    }
}
