//! Sections: types, protections, alignment, the memory they take, and which of them are sets.

use std::collections::BTreeMap;

use object::elf;

use super::elf::{Elf, Home, Section, loader};
use super::finding::Hex;
use super::rules::Rule;
use crate::arch::ModuleKind;
use crate::link::is_set;
use crate::platform::Os;

/// The section in which a module names its dependencies for the link step.
const DEPENDS: &str = ".sdt_depends";
/// The prefix of the names of relocation sections; the name of the section to which they apply follows.
const RELOCATIONS: &str = ".rela";

/// The types that `link_elf_load_file` of `sys/kern/link_elf_obj.c` maps.
const MAPPED: [elf::SectionType; 5] = [
    elf::SHT_PROGBITS,
    elf::SHT_NOBITS,
    elf::SHT_X86_64_UNWIND,
    elf::SHT_INIT_ARRAY,
    elf::SHT_FINI_ARRAY,
];
/// The types that krtld (`get_progbits` of `kobj.c`) loads. It calls no constructors.
const LOADABLE: &[elf::SectionType] = MAPPED.first_chunk::<3>().expect("five").as_slice();

/// FreeBSD's loader allocates whole pages, and stores the masks of alignments in `int`. If an alignment is larger than
/// a page, a section can end behind its memory.
const PAGE: u64 = 4096;
/// The largest module in bytes of memory. A kernel and all its modules share two gigabytes, or less (`KERNBASE` of
/// FreeBSD's `sys/amd64/include/vmparam.h`).
const MOST_MEMORY: u64 = 1 << 29;
/// Bytes of a symbol, and of a relocation.
const ENTRY: u64 = 24;

/// Checks the sections, and the bounds of sets in a relocatable file.
pub(super) fn check(elf: &Elf<'_>) {
    let relocatable = elf.arch.module_kind() == ModuleKind::Relocatable;
    let mut sets = BTreeMap::<&str, usize>::new();
    for (index, section) in elf.sections.iter().enumerate() {
        let name = &*section.name;
        if relocatable {
            types(elf, index, section);
            names(elf, section);
        }
        let symbols = section.size / ENTRY;
        let is_table = matches!(section.kind, elf::SHT_SYMTAB | elf::SHT_DYNSYM);
        if is_table && section.info as u64 > symbols {
            elf.findings.section(name, Rule::SymbolCount, &[&section.info, &symbols]);
        }
        if !section.is_loaded() {
            continue;
        }
        if section.is_writable() && section.is_code() {
            elf.findings.section(name, Rule::WritableCode, &[]);
        }
        if section.flags.contains(elf::SHF_TLS) {
            elf.findings.section(name, Rule::ThreadLocal, &[]);
        }
        // krtld allocates additional bytes for the alignment (`get_progbits`), and no memory at all for an alignment of 0.
        let (most, zero) = match elf.os {
            Os::FreeBsd => (PAGE, false),
            Os::Illumos => (MOST_MEMORY, section.align == 0),
        };
        if !section.align.is_power_of_two() && !zero {
            elf.findings.section(name, Rule::Alignment, &[&section.align]);
        } else if section.align > most {
            elf.findings.section(name, Rule::AlignmentTooLarge, &[&section.align, &most]);
        }
        if is_set(name) {
            *sets.entry(name).or_default() += 1;
            let found = section.data.len() as u64;
            // On FreeBSD, the checks of the sets' elements find this, and sets of variables may have no bytes in the file.
            if elf.os == Os::Illumos && found != section.size {
                elf.findings.section(name, Rule::SetNotInFile, &[&section.size, &found]);
            }
        }
    }
    for (set, count) in sets.into_iter().filter(|&(_, count)| count > 1) {
        let why = match elf.os {
            Os::FreeBsd => "FreeBSD's loader finds the first one only",
            Os::Illumos => "the bounds of a set are those of one section",
        };
        elf.findings.section(set, Rule::SplitSet, &[&count, &why]);
    }
    if relocatable {
        memory(elf, elf.size());
        bounds(elf);
    }
}

/// Checks that all loaded sections fit into a kernel.
pub(super) fn memory(elf: &Elf<'_>, size: u64) {
    if size > MOST_MEMORY {
        elf.findings.file(Rule::TooLarge, &[&size, &MOST_MEMORY]);
    }
}

fn types(elf: &Elf<'_>, index: usize, section: &Section<'_>) {
    let (name, kind) = (&*section.name, section.kind);
    let wrong = match elf.os {
        // The loader ignores empty sections, and notes. Notes are needed only if a relocation refers to them.
        Os::FreeBsd => {
            let unused = section.size == 0 || kind == elf::SHT_NOTE && !elf.is_used(index);
            section.is_loaded() && !MAPPED.contains(&kind) && !unused
        }
        Os::Illumos => {
            let unread = matches!(kind, elf::SHT_GROUP | elf::SHT_SYMTAB_SHNDX);
            unread || section.is_loaded() && !LOADABLE.contains(&kind)
        }
    };
    let array = matches!(kind, elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY);
    if wrong && array && elf.os == Os::Illumos {
        elf.findings.section(name, Rule::ConstructorsNotCalled, &[]);
    } else if wrong {
        elf.findings.section(name, Rule::SectionType, &[&Hex(kind.0.into()), &loader(elf.os)]);
    }
    // `do_relocations` of `uts/intel/krtld/kobj_reloc.c` reads them from this address.
    if elf.os == Os::Illumos && kind == elf::SHT_RELA && section.address != 0 {
        elf.findings.section(name, Rule::RelocationsInMemory, &[&Hex(section.address)]);
    }
    let is_table = matches!(kind, elf::SHT_RELA | elf::SHT_SYMTAB);
    let entries = section.entry == ENTRY && section.size.is_multiple_of(ENTRY);
    if elf.os == Os::Illumos && is_table && !entries {
        elf.findings.section(name, Rule::Entries, &[&section.size, &section.entry]);
    }
}

fn names(elf: &Elf<'_>, section: &Section<'_>) {
    let name = &*section.name;
    if name == DEPENDS {
        elf.findings.section(name, Rule::Leftover, &[]);
    }
    // A section with the bare name `.rela` may apply to any section. The reader reports tables that apply to no
    // section, or lack addends.
    let of = name.strip_prefix(RELOCATIONS).filter(|of| !of.is_empty());
    let Some(of) = of.filter(|_| section.kind != elf::SHT_REL) else { return };
    let target = elf.sections.get(section.info).filter(|_| section.info != 0);
    let found = match target {
        _ if section.kind != elf::SHT_RELA => format!("of type {:#x}", section.kind.0),
        Some(target) if target.name != of => format!("applied to {}", target.name),
        _ => return,
    };
    elf.findings.section(name, Rule::RelocationsOf, &[&of, &found]);
}

/// Checks that bounds of sets that are defined in the file match the sets, or are 0 if the set does not exist.
fn bounds(elf: &Elf<'_>) {
    for symbol in elf.all_symbols() {
        let name = &*symbol.name;
        let (set, stop) = match (name.strip_prefix("__start_"), name.strip_prefix("__stop_")) {
            (Some(set), _) => (set, false),
            (None, Some(set)) => (set, true),
            (None, None) => continue,
        };
        let right = match symbol.home {
            Home::Section(section) => {
                let section = &elf.sections[section];
                let bound = if stop { section.size } else { 0 };
                section.is_loaded() && section.name == set && symbol.value == bound
            }
            Home::Absolute => symbol.value == 0 && elf.named(set).next().is_none(),
            Home::Undefined | Home::Common => continue,
        };
        if is_set(set) && !right {
            let expected = if stop { "the end" } else { "the start" };
            elf.findings.symbol(name, Rule::BoundElsewhere, &[&expected, &set]);
        }
    }
}
