//! The link of two objects that have the same group.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::write::{
    Comdat, Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection,
};
use object::{
    Architecture, BinaryFormat, ComdatKind, Endianness, Object as _, ObjectSection as _,
    ObjectSymbol as _, RelocationFlags, RelocationTarget, SectionFlags, SectionKind, SymbolFlags,
    SymbolKind, SymbolScope, elf,
};

use super::module;
use crate::arch::{Arch, ModuleKind};
use crate::check::{self, Against, Rule};
use crate::link::make_readable;
use crate::setup;

const SET: &str = "set_sdt_probes_set";
const GROUP: &str = "__sdt_probe_1";

fn symbol(name: &str, section: SymbolSection, weak: bool) -> Symbol {
    let defined = matches!(section, SymbolSection::Section(_));
    Symbol {
        name: name.into(),
        value: 0,
        size: 0,
        kind: SymbolKind::Data,
        // Defined symbols are hidden. Undefined symbols have the scope that the assembler gives them.
        scope: if defined { SymbolScope::Linkage } else { SymbolScope::Dynamic },
        weak,
        section,
        flags: SymbolFlags::None,
    }
}

/// Adds a section of 8 bytes that hold a symbol's address.
fn pointer(
    object: &mut Object<'_>,
    arch: Arch,
    name: &str,
    flags: elf::SectionFlags,
    to: SymbolId,
) -> SectionId {
    let section = object.add_section(Vec::new(), name.into(), SectionKind::Data);
    object.section_mut(section).flags = SectionFlags::Elf {
        sh_type: elf::SHT_PROGBITS,
        sh_flags: elf::SectionFlags(elf::SHF_ALLOC.0 | flags.0),
    };
    object.append_section_data(section, &[0; 8], 8);
    let r_type = match arch {
        Arch::X86_64 => elf::R_X86_64_64,
        Arch::Aarch64 => elf::R_AARCH64_ABS64,
        Arch::Riscv64 => elf::R_RISCV_64,
    };
    let flags = RelocationFlags::Elf { r_type };
    let relocation = Relocation { offset: 0, symbol: to, addend: 0, flags };
    object.add_relocation(section, relocation).expect("a relocation");
    section
}

/// An object with a probe and its entry of the set in a group, and another entry that is not writable. Its site passes
/// `arguments` arguments to the probe.
fn object(arch: Arch, function: &str, arguments: u32) -> Vec<u8> {
    let architecture = match arch {
        Arch::X86_64 => Architecture::X86_64,
        Arch::Aarch64 => Architecture::Aarch64,
        Arch::Riscv64 => Architecture::Riscv64,
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, object::Endianness::Little);
    let text = object.section_id(StandardSection::Text);
    // call sdt_probe
    object.append_section_data(text, &[0xe8, 0, 0, 0, 0, 0xc3, 0xcc, 0xcc], 8);
    let kernels = object.add_symbol(symbol("sdt_probe", SymbolSection::Undefined, false));
    if arch == Arch::X86_64 {
        let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_PLT32 };
        let call = Relocation { offset: 1, symbol: kernels, addend: -4, flags };
        object.add_relocation(text, call).expect("a relocation");
    }
    let function = object.add_symbol(symbol(function, SymbolSection::Section(text), false));
    pointer(&mut object, arch, SET, elf::SHF_GNU_RETAIN, function);

    let grouped = elf::SectionFlags(elf::SHF_WRITE.0 | elf::SHF_GNU_RETAIN.0);
    let record = pointer(&mut object, arch, ".data.__sdt_probe_1", elf::SHF_WRITE, function);
    let probe = object.add_symbol(symbol(GROUP, SymbolSection::Section(record), false));
    let entry = pointer(&mut object, arch, SET, grouped, probe);
    object.add_comdat(Comdat {
        kind: ComdatKind::Any,
        symbol: probe,
        sections: vec![record, entry],
    });
    let count = pointer(&mut object, arch, ".rodata.__sdt_count_1", elf::SectionFlags(0), function);
    let key = object.add_symbol(symbol("__sdt_count_1", SymbolSection::Section(count), false));
    let types = format!("__sdt_types_1_n_{arguments}");
    let types = object.add_symbol(symbol(&types, SymbolSection::Section(count), false));
    object.add_comdat(Comdat { kind: ComdatKind::Any, symbol: key, sections: vec![count] });
    let says = pointer(&mut object, arch, ".sdt_arg_types", elf::SHF_GNU_RETAIN, types);
    object.section_mut(says).flags =
        SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: elf::SHF_GNU_RETAIN };
    for bound in ["__start_", "__stop_"] {
        let name = format!("{bound}{SET}");
        object.add_symbol(symbol(&name, SymbolSection::Undefined, true));
    }
    let mut bytes = object.write().expect("an object");
    if arch == Arch::Riscv64 {
        // The flags of lp64 with soft float, which `object` cannot set.
        bytes[48..52].fill(0);
    }
    bytes
}

/// An archive of these members.
fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (index, member) in members.iter().enumerate() {
        let (name, length) = (format!("{index}.o/"), member.len());
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{length:<10}`\n", 0, 0, 0, 644);
        bytes.extend(header.bytes());
        bytes.extend(member);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

fn linked(arch: Arch, release: &str) -> Vec<u8> {
    linked_with(arch, release, [2, 2])
}

fn linked_with(arch: Arch, release: &str, arguments: [u32; 2]) -> Vec<u8> {
    linked_of(arch, release, ["first", "second"], arguments)
}

fn linked_of(arch: Arch, release: &str, functions: [&str; 2], arguments: [u32; 2]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("two.a");
    let objects = [0, 1].map(|index| object(arch, functions[index], arguments[index]));
    std::fs::write(&library, archive(&objects)).expect("the library is written");
    let release = release.parse().expect("a release");
    let lld = setup::lld().expect("lld is there");
    module(&lld, arch, release, &library, folder.path()).expect("it links")
}

#[test]
fn of_a_group_one_copy_is_kept_and_every_set_is_one_section() {
    for arch in Arch::ALL {
        let file = linked(arch, "15");
        let file = ElfFile64::<Endianness>::parse(&*file).unwrap();
        let sets: Vec<_> = file.sections().filter(|section| section.name() == Ok(SET)).collect();
        assert_eq!(sets.len(), 1, "{arch}");
        assert_eq!(sets[0].size(), 3 * 8, "{arch}: one of the group, two of their own");
        assert!(file.symbols().filter(|symbol| symbol.name() == Ok(GROUP)).count() <= 1);
        let section = file.elf_section_table().section(sets[0].index()).unwrap();
        let flags = section.sh_flags.get(Endianness::Little);
        assert!(flags.contains(elf::SHF_WRITE), "{arch}: {flags:?}");
        if arch.module_kind() == ModuleKind::Shared {
            let bounds: BTreeMap<_, _> = file
                .dynamic_symbols()
                .filter(|symbol| !symbol.is_undefined())
                .map(|symbol| (symbol.name().unwrap(), symbol.address()))
                .collect();
            let start = sets[0].address();
            let expected = [("__start_", start), ("__stop_", start + 24)];
            let expected = expected.map(|(of, at)| (format!("{of}{SET}"), at));
            let expected = expected.iter().map(|(name, at)| (&**name, *at)).collect();
            assert_eq!(bounds, expected, "{arch}");
        }
    }
}

#[test]
fn sites_that_disagree_are_found_by_the_check() {
    let disagree = |arch, arguments| {
        // The objects are not a complete module, so the check has many other findings.
        let findings =
            check::freebsd_module(&linked_with(arch, "15", arguments), Against::default())
                .expect_err("no module");
        findings.iter().any(|of| of.rule == Rule::SitesDisagree)
    };
    for arch in Arch::ALL {
        assert!(!disagree(arch, [2, 2]), "{arch}");
        assert!(disagree(arch, [2, 3]), "{arch}");
    }
}

/// The symbols of a file, and all its relocations.
fn tables(file: &[u8]) -> (Vec<Named>, Vec<Relocated>) {
    let file = ElfFile64::<Endianness>::parse(file).expect("a module");
    let symbols = file.symbols().map(|symbol| {
        let of = symbol.elf_symbol();
        let name = symbol.name().expect("a name").to_owned();
        (name, symbol.address(), symbol.size(), of.st_info.0, of.st_other.0)
    });
    let relocations = file.sections().flat_map(|section| {
        let of_section = section.relocations().map(move |(offset, relocation)| {
            (section.index().0, offset, relocation.target(), relocation.addend())
        });
        of_section.collect::<Vec<_>>()
    });
    (symbols.collect(), relocations.collect())
}

/// Name, value, size, `st_info` and `st_other` of a symbol.
type Named = (String, u64, u64, u8, u8);

/// Section, offset, target and addend of a relocation.
type Relocated = (usize, u64, RelocationTarget, i64);

#[test]
fn functions_get_names_that_can_be_read_and_typed() {
    // One path, in two crates of one name.
    let functions = ["_RNvCs4fqI2P2rA04_7example5first", "_RNvCs5fqI2P2rA04_7example5first"];
    for arch in Arch::ALL {
        let raw = linked_of(arch, "15", functions, [2, 2]);
        let mut named = raw.clone();
        make_readable(&mut named).expect("it is whole");
        assert!(named.len() <= raw.len(), "{arch}");
        let ((before, relocations), (after, same)) = (tables(&raw), tables(&named));
        assert_eq!(relocations, same, "{arch}");
        assert_eq!(before.len(), after.len(), "{arch}");
        let mut renamed = Vec::new();
        for (before, after) in before.into_iter().zip(after) {
            if functions.contains(&&*before.0) {
                renamed.push(after.0.clone());
                assert_eq!(before, (before.0.clone(), after.1, after.2, after.3, after.4));
            } else {
                assert_eq!(before, after, "{arch}");
            }
        }
        renamed.sort();
        assert_eq!(renamed, ["example.first", "example.first.1"], "{arch}");
        let twice = named.clone();
        make_readable(&mut named).expect("it is whole");
        assert_eq!(named, twice, "{arch}");
    }
}

#[test]
fn names_without_room_move_to_the_end() {
    // In the file, one string is the end of the other.
    let raw = linked_of(Arch::X86_64, "15", ["_RNvC1a1f", "vC1a1f"], [2, 2]);
    let mut named = raw.clone();
    make_readable(&mut named).expect("it is whole");
    assert!(named.len() > raw.len());
    let ((before, relocations), (after, same)) = (tables(&raw), tables(&named));
    assert_eq!(relocations, same);
    let names = |of: Vec<Named>| of.into_iter().map(|symbol| symbol.0);
    let expected = names(before).map(|name| name.replace("_RNvC1a1f", "a.f"));
    assert_eq!(names(after).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn calls_are_relocated_as_the_release_takes_them() {
    for (release, expected) in [
        ("10", elf::R_X86_64_PC32),
        ("11", elf::R_X86_64_PC32),
        ("12", elf::R_X86_64_PLT32),
        ("15", elf::R_X86_64_PLT32),
    ] {
        let file = linked(Arch::X86_64, release);
        let file = ElfFile64::<Endianness>::parse(&*file).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let calls: Vec<_> = text.relocations().collect();
        assert_eq!(calls.len(), 2);
        for (_, call) in calls {
            assert_eq!(call.flags(), RelocationFlags::Elf { r_type: expected }, "{release}");
            let RelocationTarget::Symbol(symbol) = call.target() else { panic!("{call:?}") };
            assert_eq!(file.symbol_by_index(symbol).unwrap().name(), Ok("sdt_probe"));
        }
    }
}
