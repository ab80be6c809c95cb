//! ET_DYN files that the loader loads and refuses; no file makes it panic.

use object_core::elf::{self, RelocationType};

use super::super::{File, Linked, LoadError, Machine, RelocationError, SegmentError, Symbol};
use crate::loader::SiteRecord;
use stand_in_base::fixture::shared::{DATA, DYNAMIC, END, SharedBuilder, TEXT};
use stand_in_base::image::{PAGE, Protection, Segment};

const BASE: u64 = 0xffff_0000_4100_0000;
const OUTSIDE: u64 = 0xffff_0000_4020_0000;
/// The address of `own` in the kernel. The tests' files define this symbol, too.
const OTHER: u64 = 0xffff_0000_4030_0000;

fn load(file: &[u8]) -> Result<Linked, LoadError> {
    let file = File::parse(file, Machine::Aarch64)?;
    file.link(BASE, &|name| match name {
        "printf" => Some(OUTSIDE),
        "own" => Some(OTHER),
        _ => None,
    })
}

fn new() -> SharedBuilder {
    SharedBuilder::new(183)
}

fn word(image: &Linked, address: u64) -> u64 {
    u64::from_le_bytes(*image.bytes()[address as usize..].first_chunk().unwrap())
}

fn instruction(image: &Linked, address: u64) -> u32 {
    u32::from_le_bytes(*image.bytes()[address as usize..].first_chunk().unwrap())
}

/// A file with relocations of every supported type, sets, and arrays of functions.
fn good() -> SharedBuilder {
    let mut file = new();
    let printf = file.undefined("printf", false);
    let own = file.define("own", DATA + 16);
    let local = file.local("local", TEXT + 32);
    file.undefined("unused", false);
    file.relocate(DATA, elf::R_AARCH64_ABS64, own, 5);
    file.relocate(DATA + 8, elf::R_AARCH64_GLOB_DAT, printf, 0);
    file.relocate(DATA + 16, elf::R_AARCH64_RELATIVE, 0, 0x1004);
    file.relocate(DATA + 24, elf::R_AARCH64_ABS64, local, 0);
    file.relocate(DATA + 32, elf::R_AARCH64_NONE, own, 0);
    file.jump(DATA + 40, elf::R_AARCH64_JUMP_SLOT, printf);
    file.relocate(TEXT, elf::R_AARCH64_CALL26, printf, 0);
    file.relocate(TEXT + 4, elf::R_AARCH64_JUMP26, local, 0);
    file.relocate(TEXT + 8, elf::R_AARCH64_CONDBR19, local, -32);
    file.relocate(TEXT + 12, elf::R_AARCH64_TSTBR14, local, 4);
    let things = file.append(&[0x11u64.to_le_bytes(), 0x22u64.to_le_bytes()].concat());
    file.define("__start_set_things", things);
    file.define("__stop_set_things", things + 16);
    file.debug("__start_set_hidden", things + 8);
    file.debug("__stop_set_hidden", things + 16);
    let functions = file.pointer(elf::R_AARCH64_RELATIVE, TEXT + 8);
    file.dynamic.push((elf::DT_INIT_ARRAY.0, functions));
    file.dynamic.push((elf::DT_INIT_ARRAYSZ.0, 8));
    file
}

#[test]
fn a_good_file_is_laid_out_protected_and_relocated() {
    let image = load(&good().finish()).unwrap();
    assert_eq!(
        image.segments(),
        [
            Segment { offset: 0, size: PAGE, protection: Protection::Read },
            Segment { offset: PAGE, size: PAGE, protection: Protection::Execute },
            Segment { offset: 2 * PAGE, size: 2 * PAGE, protection: Protection::Write },
        ]
    );
    assert_eq!(image.size() as u64, END);
    let own = BASE + DATA + 16;
    assert!(image.symbols().contains(&Symbol { name: "own".into(), address: own }));
    assert!(image.symbols().iter().all(|symbol| symbol.name != "local"));

    // The file's own symbol comes before the kernel's.
    assert_eq!(word(&image, DATA), own + 5);
    assert_eq!(word(&image, DATA + 8), OUTSIDE);
    assert_eq!(word(&image, DATA + 16), BASE + 0x1004);
    assert_eq!(word(&image, DATA + 24), BASE + TEXT + 32);
    assert_eq!(word(&image, DATA + 32), 0);
    assert_eq!(word(&image, DATA + 40), OUTSIDE);

    let back = (OUTSIDE.wrapping_sub(BASE + TEXT) >> 2) as u32 & 0x03ff_ffff;
    assert_eq!(instruction(&image, TEXT), back);
    assert_eq!(instruction(&image, TEXT + 4), 28 / 4);
    assert_eq!(instruction(&image, TEXT + 8), (-8i32 as u32 >> 2 & 0x7_ffff) << 5);
    assert_eq!(instruction(&image, TEXT + 12), 6 << 5);
    assert!(image.is_code(BASE + TEXT) && !image.is_code(BASE) && !image.is_code(BASE + DATA));

    assert_eq!(image.constructors().collect::<Vec<_>>(), [BASE + TEXT + 8]);
    assert_eq!(image.destructors().count(), 0);
}

#[test]
fn sets_are_found_by_their_edges_in_either_symbol_table() {
    let image = load(&good().finish()).unwrap();
    assert_eq!(image.set("things").collect::<Vec<_>>(), [0x11, 0x22]);
    assert_eq!(image.set("hidden").collect::<Vec<_>>(), [0x22]);
    assert_eq!(image.set("nosuch").count(), 0);

    // A symbol in the dynamic table has precedence, and a set needs both symbols.
    let mut file = good();
    file.debug("__start_set_things", DATA);
    file.debug("__start_set_half", DATA);
    let image = load(&file.finish()).unwrap();
    assert_eq!(image.set("things").count(), 2);
    assert_eq!(image.set("half").count(), 0);

    for (start, stop) in [(DATA + 8, DATA), (DATA, END + 8), (u64::MAX - 8, u64::MAX)] {
        let mut file = new();
        file.debug("__start_set_bad", start);
        file.debug("__stop_set_bad", stop);
        let name = "__start_set_bad".into();
        assert_eq!(load(&file.finish()).unwrap_err(), LoadError::SymbolPlace { name });
    }
}

#[test]
fn sites_and_functions_are_there_for_listings() {
    let mut file = new();
    file.function("on_exec", TEXT, 16);
    file.debug("not_a_function", TEXT);
    let words = [DATA + 8, TEXT + 4, TEXT + 12, 0].map(u64::to_le_bytes).concat();
    let sites = file.append(&words);
    file.debug("__start_sdt_sites", sites);
    file.debug("__stop_sdt_sites", sites + 32);
    let image = load(&file.finish()).unwrap();
    let [function] = image.functions() else { panic!("{:?}", image.functions()) };
    assert_eq!((&*function.name, function.size), ("on_exec", 16));
    assert_eq!(function.address, image.base() + TEXT);
    let site = SiteRecord { probe: DATA + 8, patchpoint: TEXT + 4, target: TEXT + 12 };
    assert_eq!(image.sites(), [site]);

    // The loader does not refuse a file with an invalid range for this set, because FreeBSD's kernel does not use the set.
    let mut file = new();
    file.debug("__start_sdt_sites", DATA);
    file.debug("__stop_sdt_sites", u64::MAX);
    assert_eq!(load(&file.finish()).unwrap().sites(), []);
}

#[test]
fn a_header_that_is_not_for_us_is_refused() {
    let with = |at: usize, byte: u8| {
        let mut file = good().finish();
        file[at] = byte;
        load(&file).unwrap_err()
    };
    assert_eq!(with(0, 0), LoadError::NotElf);
    assert_eq!(with(4, 1), LoadError::Layout);
    assert_eq!(with(6, 0), LoadError::Version);
    assert_eq!(with(16, 1), LoadError::Type { found: 1, expected: "ET_DYN" });
    assert_eq!(with(18, 62), LoadError::Machine(62));
    assert_eq!(with(54, 55), LoadError::ProgramHeaders);
    assert_eq!(with(58, 63), LoadError::SectionTable);
    // The program headers extend beyond the first page.
    assert_eq!(with(33, 0x10), LoadError::ProgramHeaders);
    assert_eq!(with(56, 100), LoadError::ProgramHeaders);
    assert_eq!(with(39, 0xff), LoadError::ProgramHeaders);
    assert_eq!(load(b"").unwrap_err(), LoadError::NotElf);
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let file = good().finish();
    for end in 0..file.len() {
        assert!(load(&file[..end]).is_err(), "cut off at {end}");
    }
}

#[test]
fn no_damage_makes_the_loader_panic() {
    let file = good().finish();
    // The bytes between the tables are zero and unused.
    let meaningful = |at: usize| file[at] != 0 || at < 0x400 || at >= DYNAMIC as usize;
    for at in (0..file.len()).filter(|&at| meaningful(at)) {
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

/// Changes a field of a program header in a good file, loads the file, and returns the error.
fn with_segment(index: usize, field: usize, value: u64) -> LoadError {
    let mut file = good().finish();
    let at = 64 + 56 * index + field;
    let size = if field < 8 { 4 } else { 8 };
    file[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    load(&file).unwrap_err()
}

#[test]
fn segments_that_cannot_be_placed_are_refused() {
    let bad = |segment, error| LoadError::Segment { segment, error };
    let (flags, offset, address, in_file, in_memory) = (4, 8, 16, 32, 40);
    assert_eq!(with_segment(1, flags, 7), bad(1, SegmentError::WritableCode));
    assert_eq!(with_segment(1, offset, 1 << 40), bad(1, SegmentError::Truncated));
    assert_eq!(with_segment(1, address, 0), bad(1, SegmentError::Order));
    assert_eq!(with_segment(0, address, TEXT), bad(0, SegmentError::Order));
    assert_eq!(with_segment(1, address, 0xf00), bad(1, SegmentError::SharedPage));
    assert_eq!(with_segment(1, in_file, 0x41), bad(1, SegmentError::Sizes));
    assert_eq!(with_segment(2, in_memory, 8), bad(2, SegmentError::Sizes));
    assert_eq!(with_segment(2, in_memory, 1 << 40), LoadError::TooLarge);
    assert_eq!(with_segment(2, address, u64::MAX), LoadError::TooLarge);
    assert_eq!(with_segment(3, address, 1 << 40), LoadError::OutsideMemory("the dynamic section"));
}

#[test]
fn the_kinds_of_segments_are_those_of_a_module() {
    assert_eq!(with_segment(3, 0, elf::PT_NULL.0.into()), LoadError::NotDynamic);
    assert_eq!(with_segment(1, 0, elf::PT_INTERP.0.into()), LoadError::Interpreter);
    // Add two program headers, so that the file has five PT_LOAD segments.
    let mut file = good().finish();
    let headers = file[64..64 + 4 * 56].to_vec();
    for (index, start) in [0x4000u64, 0x5000].into_iter().enumerate() {
        let mut header = headers[56..112].to_vec();
        header[16..24].copy_from_slice(&start.to_le_bytes());
        let place = 64 + 56 * (4 + index);
        file.splice(place..place, header);
    }
    file[56] = 6;
    assert_eq!(load(&file).unwrap_err(), LoadError::TooManySegments);
}

#[test]
fn what_the_dynamic_section_has_to_name_must_be_there() {
    let without = |tag| {
        let mut file = good();
        file.without.push(tag);
        load(&file.finish()).unwrap_err()
    };
    assert_eq!(without(elf::DT_HASH).to_string(), "missing symbol hash table");
    assert_eq!(without(elf::DT_SYMTAB), LoadError::NoTable("symbol table"));
    assert_eq!(without(elf::DT_STRTAB), LoadError::NoTable("string table"));
    assert_eq!(without(elf::DT_STRSZ), LoadError::NoTable("size of the string table"));
    let mut file = good();
    file.without.extend([elf::DT_RELA, elf::DT_JMPREL]);
    assert_eq!(word(&load(&file.finish()).unwrap(), DATA), 0);
}

#[test]
fn entries_of_the_dynamic_section_that_mean_something_else_are_refused() {
    for (tag, value) in [
        (elf::DT_SYMENT, 16),
        (elf::DT_RELAENT, 16),
        (elf::DT_PLTREL, elf::DT_REL.0 as u64),
        (elf::DT_REL, DATA),
        (elf::DT_RELR, DATA),
    ] {
        let mut file = good();
        file.dynamic.push((tag.0, value));
        assert!(matches!(load(&file.finish()), Err(LoadError::Dynamic(_))), "{tag:?}");
    }
    for (tag, value) in [
        (elf::DT_HASH, END),
        (elf::DT_HASH, u64::MAX),
        (elf::DT_SYMTAB, END - 8),
        (elf::DT_STRSZ, END),
        (elf::DT_RELASZ, u64::MAX),
        (elf::DT_JMPREL, u64::MAX - 8),
        (elf::DT_INIT_ARRAY, END),
    ] {
        let mut file = good();
        file.dynamic.push((tag.0, value));
        assert!(matches!(load(&file.finish()), Err(LoadError::OutsideMemory(_))), "{tag:?}");
    }
}

#[test]
fn a_hash_table_without_buckets_is_none_and_one_that_goes_in_circles_is_refused() {
    let file = good().finish();
    let table = 64 + 4 * 56;
    assert_eq!(file[table..table + 4], 2u32.to_le_bytes());
    let mut none = file.clone();
    none[table] = 0;
    assert_eq!(load(&none).unwrap_err(), LoadError::NoHashTable);

    let mut circles = file;
    let symbols = u32::from_le_bytes(*circles[table + 4..].first_chunk().unwrap()) as usize;
    for chain in 0..symbols {
        let at = table + 16 + 4 * chain;
        circles[at..at + 4].copy_from_slice(&(chain as u32).to_le_bytes());
    }
    let error = load(&circles).unwrap_err();
    assert_eq!(error, LoadError::EndlessChain);
    assert!(error.would_have_panicked(), "who looks for a symbol goes round for ever");
}

fn with_relocation(
    kind: RelocationType,
    at: u64,
    symbol: u64,
    addend: i64,
) -> Result<(), LoadError> {
    let mut file = new();
    let symbol = file.define("symbol", symbol);
    file.relocate(at, kind, symbol, addend);
    load(&file.finish()).map(|_| ())
}

#[test]
fn relocations_that_freebsd_does_not_know_are_refused() {
    for kind in [
        elf::R_AARCH64_ABS32,
        elf::R_AARCH64_ADR_PREL_PG_HI21,
        elf::R_AARCH64_ADD_ABS_LO12_NC,
        elf::R_AARCH64_COPY,
        elf::R_AARCH64_TLSDESC,
    ] {
        let error = with_relocation(kind, DATA, DATA, 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("unexpected relocation type {}, symbol index 1, at {DATA:#x}", kind.0)
        );
    }
    let resolver = with_relocation(elf::R_AARCH64_IRELATIVE, DATA, DATA, 0);
    let Err(LoadError::Relocation { error, .. }) = resolver else { panic!("{resolver:?}") };
    assert_eq!(error, RelocationError::Resolver);
}

#[test]
fn a_relocation_out_of_range_is_refused() {
    let is = |result, expected: fn(&RelocationError) -> bool| matches!(&result, Err(LoadError::Relocation { error, .. }) if expected(error));
    let range = |error: &RelocationError| matches!(error, RelocationError::Range(_));
    let misaligned = |error: &RelocationError| matches!(error, RelocationError::Misaligned(_));
    let place = |error: &RelocationError| matches!(error, RelocationError::Place);
    for (kind, reach) in [
        (elf::R_AARCH64_CALL26, 1 << 27),
        (elf::R_AARCH64_JUMP26, 1 << 27),
        (elf::R_AARCH64_CONDBR19, 1 << 20),
        (elf::R_AARCH64_TSTBR14, 1 << 15),
    ] {
        // The symbol is where the field is.
        let of = |addend| with_relocation(kind, TEXT, TEXT, addend);
        assert_eq!(of(reach - 4), Ok(()));
        assert_eq!(of(-reach), Ok(()));
        assert!(is(of(reach), range));
        assert!(is(of(-reach - 4), range));
        assert!(is(of(i64::MAX), range));
        assert!(is(of(i64::MIN), range));
        assert!(is(of(2), misaligned));
    }
    let absolute = |at| with_relocation(elf::R_AARCH64_ABS64, at, DATA, 0);
    assert_eq!(absolute(END - 8), Ok(()));
    for at in [END - 7, END, TEXT + 57, TEXT + 64, u64::MAX] {
        assert!(is(absolute(at), place), "{at:#x}");
    }
}

#[test]
fn undefined_symbols_are_refused_unless_weak() {
    let mut file = new();
    let strong = file.undefined("nosuch", false);
    file.relocate(DATA, elf::R_AARCH64_ABS64, strong, 0);
    assert_eq!(load(&file.finish()).unwrap_err().to_string(), "symbol nosuch undefined");

    let mut file = new();
    let weak = file.undefined("nosuch", true);
    file.relocate(DATA, elf::R_AARCH64_ABS64, weak, 3);
    assert_eq!(word(&load(&file.finish()).unwrap(), DATA), 3);

    // "Insanity": a local symbol with the value 0.
    let mut file = new();
    let local = file.local("zero", 0);
    file.relocate(DATA, elf::R_AARCH64_ABS64, local, 0);
    assert_eq!(load(&file.finish()).unwrap_err(), LoadError::Undefined { name: "zero".into() });

    let mut file = new();
    file.relocate(DATA, elf::R_AARCH64_ABS64, 99, 0);
    assert_eq!(load(&file.finish()).unwrap_err(), LoadError::SymbolIndex { index: 99 });

    let mut file = new();
    file.define("far", END + 1);
    assert_eq!(load(&file.finish()).unwrap_err(), LoadError::SymbolPlace { name: "far".into() });
}

#[test]
fn a_stripped_file_is_loaded() {
    let mut file = good().finish();
    file[40..48].fill(0);
    let image = load(&file).unwrap();
    assert_eq!(image.set("things").count(), 2);
    assert_eq!(image.set("hidden").count(), 0);
}
