//! Sections and symbol table entries: what `get_progbits` and `get_syms` take (`krtld/kobj.c`).

use std::collections::BTreeMap;

use object::elf;

use super::Problem;
use super::file::File;
use crate::check::finding::{self, Findings, Place};
use crate::check::layout;
use crate::link::is_set;

/// What a section that is loaded may be.
const LOADABLE: [elf::SectionType; 3] =
    [elf::SHT_PROGBITS, elf::SHT_NOBITS, elf::SHT_X86_64_UNWIND];

/// Bytes of a symbol, and of a relocation.
const ENTRY: u64 = 24;

pub(super) fn check(file: &File<'_>, findings: &mut Findings) {
    let mut sets = BTreeMap::<&str, usize>::new();
    for section in &file.sections {
        let mut wrong = |problem| findings.illumos(Place::Section(section.name.clone()), problem);
        let is_table = matches!(section.kind, elf::SHT_RELA | elf::SHT_SYMTAB);
        if is_table && (section.entry != ENTRY || !section.size.is_multiple_of(ENTRY)) {
            wrong(Problem::Entries { size: section.size, entry: section.entry });
        }
        match section.kind {
            elf::SHT_REL => wrong(Problem::ImplicitAddends),
            elf::SHT_GROUP => wrong(Problem::Group),
            elf::SHT_SYMTAB_SHNDX => wrong(Problem::ExtendedSections),
            elf::SHT_RELA => {
                let applies = file.sections.get(section.info).is_some() && section.info != 0;
                if section.link != file.symbol_table || !applies {
                    wrong(Problem::StrayRelocations);
                }
            }
            _ => {}
        }
        if !section.is_loaded() {
            continue;
        }
        match section.kind {
            elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY => {
                wrong(Problem::Constructors);
            }
            kind if !LOADABLE.contains(&kind) => wrong(Problem::SectionType(kind.0)),
            _ => {}
        }
        let mut wrong = |problem| findings.section(&section.name, problem);
        if section.flags.contains(elf::SHF_TLS) {
            wrong(finding::Problem::ThreadLocal);
        }
        if section.flags.contains(elf::SHF_WRITE) && section.is_code() {
            wrong(finding::Problem::WritableCode);
        }
        if !section.align.is_power_of_two() && section.align != 0 {
            wrong(finding::Problem::Alignment(section.align));
        } else if section.align > layout::MOST_MEMORY {
            // krtld takes as many bytes more (`get_progbits`).
            let (found, most) = (section.align, layout::MOST_MEMORY);
            wrong(finding::Problem::AlignmentTooLarge { found, most });
        }
        if is_set(&section.name) {
            *sets.entry(&section.name).or_default() += 1;
            let found = section.data.len() as u64;
            if found != section.size {
                wrong(finding::Problem::SetNotInFile { size: section.size, found });
            }
        }
    }
    for (table, section) in file.relocated().filter(|(_, section)| !section.is_code()) {
        let addresses = table.relocations().filter(|of| of.kind == elf::R_X86_64_64);
        layout::alignment(&section.name, section.align, addresses.map(|of| of.offset), findings);
    }
    let loaded = file.sections.iter().filter(|section| section.is_loaded());
    layout::memory(loaded.map(|section| section.size), findings);
    for (set, count) in sets.into_iter().filter(|&(_, count)| count > 1) {
        findings.illumos(Place::Section(set.into()), Problem::SplitSet(count));
    }
    // `symid_t` was an unsigned short.
    if file.symbols.len() > usize::from(u16::MAX) {
        findings.illumos(Place::File, Problem::TooManySymbols(file.symbols.len()));
    }
    let sizes: BTreeMap<_, _> = file
        .sections
        .iter()
        .enumerate()
        .filter(|(_, section)| section.is_loaded())
        .map(|(index, section)| (index, (&*section.name, section.size)))
        .collect();
    let defined = file.symbols.iter().filter(|symbol| !symbol.is_undefined());
    let defined = defined.map(|of| (&*of.name, file.section_of(of), of.value));
    layout::bounds(defined, &sizes, findings);
    for symbol in file.symbols.iter().skip(1) {
        let number = symbol.section.0;
        if number < elf::SHN_LORESERVE && usize::from(number) >= file.sections.len() {
            findings.illumos(Place::Symbol(symbol.name.clone()), Problem::SectionNumber(number));
        }
        if layout::is_reserved(symbol.section) {
            findings.symbol(&symbol.name, finding::Problem::ReservedSection(number));
        }
    }
}
