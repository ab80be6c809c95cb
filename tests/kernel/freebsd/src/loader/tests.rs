//! ET_REL files that the loader loads and refuses; no file makes it panic.

use object_core::elf;

use super::elf::Object;
use super::*;
use stand_in_base::fixture::Builder;
use stand_in_base::image::{PAGE, Protection, Segment};

const BASE: u64 = 0xffff_ffff_c000_0000;
const OUTSIDE: u64 = 0xffff_ffff_8020_0000;

fn load(file: &[u8]) -> Result<Linked, LoadError> {
    let file = File::parse(file, Machine::X86_64)?;
    file.link(BASE, &|name| (name == "printf").then_some(OUTSIDE))
}

fn word(image: &Linked, offset: usize) -> u64 {
    u64::from_le_bytes(*image.bytes()[offset..].first_chunk().unwrap())
}

fn long(image: &Linked, offset: usize) -> i32 {
    i32::from_le_bytes(*image.bytes()[offset..].first_chunk().unwrap())
}

#[test]
fn sites_and_functions_are_there_for_listings() {
    let mut file = Builder::new();
    let (text, data) = (file.text(), file.data());
    file.function("on_exec", text, 4, 12);
    file.define("not_a_function", text, 4);
    let sites = file.set("sdt_sites", &[]);
    for (to, at) in [(data, 8), (text, 5), (text, 12)] {
        file.pointer(sites, to, at);
    }
    file.append(sites, &[0; 8]);
    // An incomplete record, which is ignored.
    file.append(sites, &[1; 24]);
    let image = load(&file.finish()).unwrap();
    let functions = image.functions();
    assert_eq!(functions, [Function { name: "on_exec".into(), address: BASE + 4, size: 12 }]);
    let start = BASE + PAGE as u64;
    let site = SiteRecord { probe: start + 8, patchpoint: BASE + 5, target: BASE + 12 };
    assert_eq!(image.sites(), [site]);
}

/// A file with code, constants, data, zeros, and relocations of every supported type.
fn good() -> Vec<u8> {
    let mut file = Builder::new();
    let (text, data) = (file.text(), file.data());
    let constants = file.section(".rodata", elf::SHT_PROGBITS, elf::SHF_ALLOC, b"text\0", 1);
    let zeros = elf::SHF_ALLOC | elf::SHF_WRITE;
    file.section(".bss", elf::SHT_NOBITS, zeros, &[0; 5000], 64);
    file.section(".comment", elf::SHT_PROGBITS, elf::SectionFlags(0), b"not loaded", 1);
    let printf = file.undefined("printf", false);
    let own = file.define("own", data, 16);
    let text_of = file.section_symbol(constants);
    file.relocate(text, 0, elf::R_X86_64_PC32, own, -4);
    file.relocate(text, 4, elf::R_X86_64_PLT32, printf, -4);
    file.relocate(text, 8, elf::R_X86_64_32S, text_of, 2);
    file.relocate(text, 12, elf::R_X86_64_NONE, own, 0);
    file.relocate(data, 0, elf::R_X86_64_64, own, 5);
    file.relocate(data, 8, elf::R_X86_64_GLOB_DAT, printf, 0);
    file.relocate(data, 16, elf::R_X86_64_JUMP_SLOT, own, 0);
    file.relocate(data, 24, elf::R_X86_64_RELATIVE, own, 7);
    file.finish()
}

#[test]
fn a_good_file_is_laid_out_protected_and_relocated() {
    let image = load(&good()).unwrap();
    assert_eq!(
        image.segments(),
        [
            Segment { offset: 0, size: PAGE, protection: Protection::Execute },
            Segment { offset: PAGE, size: PAGE, protection: Protection::Read },
            Segment { offset: 2 * PAGE, size: 2 * PAGE, protection: Protection::Write },
        ]
    );
    assert_eq!(image.size(), 4 * PAGE);
    assert_eq!(&image.bytes()[PAGE..PAGE + 5], b"text\0");
    let own = BASE + 2 * PAGE as u64 + 16;
    assert_eq!(image.symbols(), [Symbol { name: "own".into(), address: own }]);

    assert_eq!(BASE.wrapping_add_signed(i64::from(long(&image, 0)) + 4), own);
    assert_eq!(BASE.wrapping_add_signed(i64::from(long(&image, 4)) + 8), OUTSIDE);
    assert_eq!(i64::from(long(&image, 8)) as u64, BASE + PAGE as u64 + 2);
    assert_eq!(long(&image, 12) as u32, 0x9090_9090);
    assert_eq!(word(&image, 2 * PAGE), own + 5);
    assert_eq!(word(&image, 2 * PAGE + 8), OUTSIDE);
    assert_eq!(word(&image, 2 * PAGE + 16), own);
    assert_eq!(word(&image, 2 * PAGE + 24), BASE + 7);
    assert!(image.is_code(BASE) && !image.is_code(BASE + PAGE as u64));
}

#[test]
fn a_header_that_is_not_for_us_is_refused() {
    let with = |at: usize, byte: u8| {
        let mut file = good();
        file[at] = byte;
        load(&file).unwrap_err()
    };
    assert_eq!(with(0, 0), LoadError::NotElf);
    assert_eq!(with(4, 1), LoadError::Layout);
    assert_eq!(with(5, 2), LoadError::Layout);
    assert_eq!(with(6, 0), LoadError::Version);
    assert_eq!(with(20, 2), LoadError::Version);
    assert_eq!(with(16, 3), LoadError::Type { found: 3, expected: "ET_REL" });
    assert_eq!(with(18, 183), LoadError::Machine(183));
    assert_eq!(with(58, 63), LoadError::SectionTable);
    assert_eq!(load(b"").unwrap_err(), LoadError::NotElf);
    assert_eq!(load(&[0xff; 1000]).unwrap_err(), LoadError::NotElf);
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let file = good();
    for end in 0..file.len() {
        assert!(load(&file[..end]).is_err(), "cut off at {end}");
    }
}

#[test]
fn no_damage_makes_the_loader_panic() {
    let file = good();
    for at in 0..file.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, !file[at]] {
            let mut file = file.clone();
            file[at] = value;
            let _ = load(&file);
        }
        let mut file = file.clone();
        let end = (at + 8).min(file.len());
        file[at..end].fill(0xff);
        let _ = load(&file);
    }
}

#[test]
fn relocations_that_freebsd_does_not_know_are_refused() {
    let unknown = [
        elf::R_X86_64_32,
        elf::R_X86_64_GOTPCREL,
        elf::R_X86_64_GOTPCRELX,
        elf::R_X86_64_REX_GOTPCRELX,
        elf::R_X86_64_PC64,
        elf::R_X86_64_TLSGD,
        elf::R_X86_64_TPOFF32,
    ];
    for kind in unknown {
        let mut file = Builder::new();
        let own = file.define("own", file.data(), 0);
        file.relocate(file.text(), 4, kind, own, 0);
        let error = load(&file.finish()).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("unexpected relocation type {}, ", kind.0)),
            "{error}"
        );
    }
    for (kind, expected) in [
        (elf::R_X86_64_COPY, RelocationError::Copy),
        (elf::R_X86_64_IRELATIVE, RelocationError::Resolver),
    ] {
        let mut file = Builder::new();
        let own = file.define("own", file.data(), 0);
        file.relocate(file.text(), 4, kind, own, 0);
        let Err(LoadError::Relocation { error, .. }) = load(&file.finish()) else { panic!() };
        assert_eq!(error, expected);
    }
}

#[test]
fn a_relocation_out_of_range_is_refused() {
    let of = |kind, addend, offset| {
        let mut file = Builder::new();
        let own = file.define("own", file.data(), 0);
        file.relocate(file.text(), offset, kind, own, addend);
        load(&file.finish()).map(|_| ())
    };
    let is = |result: Result<(), LoadError>, expected: fn(&RelocationError) -> bool| matches!(result, Err(LoadError::Relocation { error, .. }) if expected(&error));
    let range = |error: &RelocationError| matches!(error, RelocationError::Range(_));
    let place = |error: &RelocationError| matches!(error, RelocationError::Place);
    assert!(is(of(elf::R_X86_64_PC32, 1 << 31, 0), range));
    assert!(is(of(elf::R_X86_64_PC32, -(1 << 32), 0), range));
    assert!(is(of(elf::R_X86_64_32S, 3 << 30, 0), range));
    assert!(is(of(elf::R_X86_64_32S, i64::MIN, 0), range));
    assert_eq!(of(elf::R_X86_64_PC32, (1 << 31) - 0x2000, 0), Ok(()));
    assert!(is(of(elf::R_X86_64_PC32, 0, 61), place));
    assert!(is(of(elf::R_X86_64_64, 0, 57), place));
    assert!(is(of(elf::R_X86_64_64, 0, u64::MAX), place));
    assert_eq!(of(elf::R_X86_64_64, 0, 56), Ok(()));
}

#[test]
fn undefined_symbols_are_refused_unless_weak() {
    let mut file = Builder::new();
    let strong = file.undefined("nosuch", false);
    file.relocate(file.data(), 0, elf::R_X86_64_64, strong, 0);
    let error = load(&file.finish()).unwrap_err();
    assert_eq!(error.to_string(), "symbol nosuch undefined");

    let mut file = Builder::new();
    let weak = file.undefined("nosuch", true);
    file.relocate(file.data(), 0, elf::R_X86_64_64, weak, 3);
    assert_eq!(word(&load(&file.finish()).unwrap(), PAGE), 3);

    let mut file = Builder::new();
    let common = file.common("shared");
    file.relocate(file.data(), 0, elf::R_X86_64_64, common, 0);
    assert_eq!(load(&file.finish()).unwrap_err(), LoadError::SymbolPlace { name: "shared".into() });
}

#[test]
fn a_symbol_beyond_its_section_or_the_table_is_refused() {
    let mut file = Builder::new();
    let own = file.define("far", file.data(), 65);
    file.relocate(file.data(), 0, elf::R_X86_64_64, own, 0);
    assert_eq!(load(&file.finish()).unwrap_err(), LoadError::SymbolPlace { name: "far".into() });

    let mut file = Builder::new();
    let comment = file.section(".comment", elf::SHT_PROGBITS, elf::SectionFlags(0), b"x", 1);
    let own = file.define("lost", comment, 0);
    file.relocate(file.data(), 0, elf::R_X86_64_64, own, 0);
    assert_eq!(load(&file.finish()).unwrap_err(), LoadError::SymbolPlace { name: "lost".into() });
}

#[test]
fn the_first_section_of_a_set_is_the_set() {
    let mut file = Builder::new();
    let first = file.set("set_things", &[]);
    for (index, value) in [0x11u64, 0x22].into_iter().enumerate() {
        assert_eq!(file.append(first, &value.to_le_bytes()), 8 * index as u64);
    }
    file.set("set_things", &0x33u64.to_le_bytes());
    let start = file.undefined("__start_set_things", false);
    let stop = file.undefined("__stop_set_things", false);
    let data = file.data();
    file.relocate(data, 0, elf::R_X86_64_64, start, 0);
    file.relocate(data, 8, elf::R_X86_64_64, stop, 0);
    let image = load(&file.finish()).unwrap();
    assert_eq!(image.set("things").collect::<Vec<_>>(), [0x11, 0x22]);
    assert_eq!(image.set("thing").count(), 0);
    let (start, stop) = (word(&image, PAGE), word(&image, PAGE + 8));
    assert_eq!(stop - start, 16);
    assert_eq!(word(&image, (start - BASE) as usize), 0x11);

    let mut file = Builder::new();
    let start = file.undefined("__start_set_nosuch", false);
    file.relocate(file.data(), 0, elf::R_X86_64_64, start, 0);
    assert_eq!(
        load(&file.finish()).unwrap_err(),
        LoadError::Undefined { name: "__start_set_nosuch".into() }
    );
}

/// Offset of a section's header, by name.
fn header(file: &[u8], name: &str) -> usize {
    let object = Object::parse(file, Machine::X86_64.number()).unwrap();
    let index = (0..object.sections.len())
        .find(|&index| object.section_name(index).as_deref() == Ok(name))
        .unwrap();
    let table = u64::from_le_bytes(*file[40..].first_chunk().unwrap()) as usize;
    table + 64 * index
}

#[test]
fn alignments_that_break_the_layout_are_refused() {
    for alignment in [0u64, 3, 8192, u64::MAX] {
        let mut file = good();
        let at = header(&file, ".data") + 48;
        file[at..at + 8].copy_from_slice(&alignment.to_le_bytes());
        assert_eq!(
            load(&file).unwrap_err(),
            LoadError::Alignment { section: ".data".into(), alignment }
        );
    }
}

#[test]
fn sections_that_overlap_the_end_or_overflow_are_refused() {
    for (field, value) in [(24, u64::MAX), (24, 1 << 20), (32, u64::MAX), (32, 1 << 20)] {
        let mut file = good();
        let at = header(&file, ".data") + field;
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        assert!(
            matches!(load(&file), Err(LoadError::Truncated { .. } | LoadError::TooLarge)),
            "{field} {value:#x}"
        );
    }
    let mut file = good();
    let at = header(&file, ".bss") + 32;
    file[at..at + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    assert_eq!(load(&file).unwrap_err(), LoadError::TooLarge);
}

#[test]
fn code_that_can_be_written_is_refused() {
    let mut file = Builder::new();
    let flags = elf::SHF_ALLOC | elf::SHF_WRITE | elf::SHF_EXECINSTR;
    file.section(".wx", elf::SHT_PROGBITS, flags, &[0; 4], 4);
    assert_eq!(
        load(&file.finish()).unwrap_err(),
        LoadError::WritableCode { section: ".wx".into() }
    );
}

#[test]
fn exactly_one_symbol_table_must_be_there() {
    for (name, kind, count) in [(".symtab", elf::SHT_PROGBITS, 0), (".bss", elf::SHT_SYMTAB, 2)] {
        let mut file = good();
        let at = header(&file, name) + 4;
        file[at..at + 4].copy_from_slice(&kind.0.to_le_bytes());
        assert_eq!(load(&file).unwrap_err(), LoadError::SymbolTables(count), "{name}");
    }
    let mut file = good();
    let at = header(&file, ".symtab") + 40;
    file[at..at + 4].fill(0xff);
    assert_eq!(load(&file).unwrap_err(), LoadError::SymbolStrings);
}

#[test]
fn relocations_must_be_rela_and_for_a_loaded_section() {
    for target in [0u32, 1000] {
        let mut file = good();
        let at = header(&file, ".rela.data") + 44;
        file[at..at + 4].copy_from_slice(&target.to_le_bytes());
        let result = load(&file);
        match target {
            // Section 0 takes no memory, so the linker ignores relocations for it.
            0 => assert!(result.is_ok()),
            _ => assert!(matches!(result, Err(LoadError::RelocationSection { .. }))),
        }
    }
    let mut file = good();
    let at = header(&file, ".rela.data") + 4;
    file[at..at + 4].copy_from_slice(&elf::SHT_REL.0.to_le_bytes());
    assert!(matches!(load(&file), Err(LoadError::RelocationSection { .. })));
}

#[test]
fn a_file_without_contents_is_refused() {
    let mut file = Builder::new().finish();
    for name in [".text", ".data"] {
        let at = header(&file, name) + 8;
        file[at..at + 8].fill(0);
    }
    assert_eq!(load(&file).unwrap_err(), LoadError::NoContents);
}

#[test]
fn functions_that_fbt_would_fall_over() {
    let with = |value, size| {
        let mut file = Builder::new();
        let text = file.text();
        file.function("f", text, value, size);
        load(&file.finish())
    };
    assert!(with(4, 12).is_ok());
    for (value, size) in [(1 << 40, 1), (4, u64::MAX), (4, 1 << 30)] {
        let error = with(value, size).unwrap_err();
        assert_eq!(error, LoadError::FunctionPlace { name: "f".into() });
        assert!(error.would_have_panicked());
    }
}

#[test]
fn calls_lead_to_functions() {
    let with = |target, addend| {
        let mut file = Builder::new();
        let text = file.text();
        file.function("first", text, 0, 8);
        file.function("second", text, 8, 8);
        file.patch(text, 3, &[0xe8]);
        let symbol = if target == "printf" {
            file.undefined("printf", false)
        } else {
            file.section_symbol(text)
        };
        file.relocate(text, 4, elf::R_X86_64_PLT32, symbol, addend);
        load(&file.finish()).map(|_| ())
    };
    assert_eq!(with("printf", -4), Ok(()));
    assert_eq!(with("text", 4), Ok(()));
    for (target, addend) in [("printf", 0), ("text", 5), ("text", 1 << 20)] {
        let error = with(target, addend).unwrap_err();
        assert!(matches!(error, LoadError::Call { .. }), "{target}{addend:+}: {error:?}");
        assert!(error.would_have_panicked());
    }
}

#[test]
fn what_is_refused_and_what_takes_the_kernel_down() {
    let alignment = |alignment| LoadError::Alignment { section: "s".into(), alignment };
    let relocation = |error| LoadError::Relocation { place: "p".into(), symbol: 0, error };
    for error in [alignment(0), alignment(3), relocation(RelocationError::Place)] {
        assert!(error.would_have_panicked(), "{error}");
    }
    for error in [alignment(1 << 20), relocation(RelocationError::Copy), LoadError::NotElf] {
        assert!(!error.would_have_panicked(), "{error}");
    }
}
