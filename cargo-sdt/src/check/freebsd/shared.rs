//! Checks shared objects: the segments must be as `link_elf_load_file` of `sys/kern/link_elf.c` requires. The sections,
//! which all other rules use, must match the segments. The loader must find symbols and sets in its tables.

use object::elf;

use crate::arch::ModuleKind;
use crate::check::elf::{Elf, Home, Section, Segment};
use crate::check::finding::Hex;
use crate::check::rules::Rule;
use crate::check::sections;

const PAGE: u64 = 4096;
/// `MAXSEGS` of `link_elf.c`.
const MOST_SEGMENTS: usize = 4;

/// A table: the tags of its address and its size, and the section that contains it.
const TABLES: [(elf::DynamicTag, Option<elf::DynamicTag>, &str, &str); 7] = [
    (elf::DT_HASH, None, "DT_HASH", ".hash"),
    (elf::DT_SYMTAB, None, "DT_SYMTAB", ".dynsym"),
    (elf::DT_STRTAB, Some(elf::DT_STRSZ), "DT_STRTAB", ".dynstr"),
    (elf::DT_RELA, Some(elf::DT_RELASZ), "DT_RELA", ".rela.dyn"),
    (elf::DT_JMPREL, Some(elf::DT_PLTRELSZ), "DT_JMPREL", ".rela.plt"),
    (elf::DT_INIT_ARRAY, Some(elf::DT_INIT_ARRAYSZ), "DT_INIT_ARRAY", ".init_array"),
    (elf::DT_FINI_ARRAY, Some(elf::DT_FINI_ARRAYSZ), "DT_FINI_ARRAY", ".fini_array"),
];

pub(super) fn check(elf: &Elf<'_>) {
    if elf.arch.module_kind() == ModuleKind::Relocatable {
        return;
    }
    segments(elf);
    tables(elf);
    if let Some(reason) = hash_table(elf) {
        elf.findings.file(Rule::HashTable, &[&reason]);
    }
    let sets = elf.sections.iter().enumerate();
    for (index, section) in sets.filter(|(_, of)| of.is_loaded() && of.size > 0) {
        if section.name.starts_with("set_") {
            bounds(elf, index, section);
        }
    }
}

fn segments(elf: &Elf<'_>) {
    // Everything that the loader reads before it maps anything is in the first page of the file.
    if elf.segments_end > PAGE {
        elf.findings.file(Rule::HeadersBehindFirstPage, &[&Hex(elf.segments_end)]);
    }
    let of_kind = |kind| elf.segments.iter().filter(move |of: &&Segment<'_>| of.kind == kind);
    for (kind, name, expected) in [
        (elf::PT_DYNAMIC, "PT_DYNAMIC", 1),
        (elf::PT_INTERP, "PT_INTERP", 0),
        (elf::PT_TLS, "PT_TLS", 0),
    ] {
        let count = of_kind(kind).count();
        if count != expected {
            elf.findings.file(Rule::SegmentCount, &[&count, &name, &expected]);
        }
    }
    let loaded: Vec<_> = of_kind(elf::PT_LOAD).collect();
    if loaded.is_empty() || loaded.len() > MOST_SEGMENTS {
        elf.findings.file(Rule::SegmentCount, &[&loaded.len(), &"PT_LOAD", &"1 to 4"]);
    }
    for dynamic in of_kind(elf::PT_DYNAMIC) {
        let inside = |of: &&Segment<'_>| {
            dynamic.address.checked_sub(of.address).is_some_and(|offset| {
                offset.checked_add(dynamic.size).is_some_and(|end| end <= of.size)
                    && of.offset.checked_add(offset) == Some(dynamic.offset)
            })
        };
        if !loaded.iter().any(inside) {
            elf.findings.file(Rule::TableOutside, &[&"PT_DYNAMIC"]);
        }
    }
    for (index, segment) in loaded.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| loaded[before]);
        for reason in wrong_with(segment, before) {
            elf.findings.file(Rule::Segment, &[&index, &reason]);
        }
    }
    // The memory from the first to the last segment is one piece.
    let start = loaded.iter().map(|segment| segment.address).min().unwrap_or_default();
    let ends = loaded.iter().map(|segment| segment.address.saturating_add(segment.size));
    sections::memory(elf, ends.max().unwrap_or(start) - start);
    for section in elf.loaded() {
        // The place of an empty section does not matter.
        if section.size > 0 && !loaded.iter().any(|segment| holds(segment, section)) {
            elf.findings.section(&section.name, Rule::OutsideSegments, &[]);
        }
    }
}

/// Returns the faults of a segment after `before`.
fn wrong_with(segment: &Segment<'_>, before: Option<&Segment<'_>>) -> Vec<&'static str> {
    let file_size = segment.data.map_or(0, <[u8]>::len) as u64;
    let start = segment.address - segment.address % PAGE;
    let behind = |before: &Segment<'_>| before.address.checked_add(before.size);
    let rules = [
        (segment.data.is_none(), "is not completely in the file"),
        (
            segment.flags.contains(elf::PF_W | elf::PF_X),
            "is both writable and executable, which kernels must not map",
        ),
        (segment.size < file_size, "is larger in the file than in memory"),
        (segment.address.checked_add(segment.size).is_none(), "ends beyond the last address"),
        (
            segment.address % PAGE != segment.offset % PAGE,
            "cannot be mapped from its offset in the file",
        ),
        (
            before.is_none() && (segment.offset != 0 || !segment.address.is_multiple_of(PAGE)),
            "is the first and does not begin with the header of the file, which boot loaders \
             require",
        ),
        (
            before.is_some_and(|before| behind(before).is_none_or(|end| end > start)),
            "shares a page with the previous segment, or precedes it",
        ),
    ];
    rules.into_iter().filter(|&(wrong, _)| wrong).map(|(_, reason)| reason).collect()
}

/// Returns whether a section is in a segment, at the same place of the file and of memory, with its protection.
fn holds(segment: &Segment<'_>, section: &Section<'_>) -> bool {
    let Some(offset) = section.address.checked_sub(segment.address) else { return false };
    let inside = offset.checked_add(section.size).is_some_and(|end| end <= segment.size);
    let same_place = segment.offset.checked_add(offset) == Some(section.offset);
    inside
        && (same_place || section.kind == elf::SHT_NOBITS)
        && section.is_code() == segment.flags.contains(elf::PF_X)
        && (!section.is_writable() || segment.flags.contains(elf::PF_W))
}

/// Checks that each table of the dynamic section is the section of its name.
fn tables(elf: &Elf<'_>) {
    for (table, size, name, section) in TABLES {
        let wrong = match (elf.tag(table), elf.named(section).next()) {
            (Some(address), Some(of)) => {
                let size = size.map(|tag| elf.tag(tag).unwrap_or_default());
                address != of.address || size.is_some_and(|size| size != of.size)
            }
            // If there are constructors, destructors or relocations, the dynamic section must name their table.
            (None, Some(of)) => of.size != 0,
            // The kernel would call its functions, wherever they are.
            (Some(_), None) => matches!(table, elf::DT_INIT_ARRAY | elf::DT_FINI_ARRAY),
            (None, None) => false,
        };
        if wrong {
            elf.findings.file(Rule::OtherTable, &[&name, &section]);
        }
    }
}

/// Returns the fault of the hash table (`link_elf_lookup_symbol`): its chains must end, and must contain every defined
/// global symbol.
fn hash_table(elf: &Elf<'_>) -> Option<&'static str> {
    // A missing one has been reported.
    let table = elf.hash.as_ref()?;
    if table.buckets.is_empty() {
        return Some("has no buckets");
    }
    for (index, symbol) in elf.symbols.iter().enumerate().skip(1) {
        if symbol.is_undefined() || symbol.binding == elf::STB_LOCAL {
            continue;
        }
        let bucket = elf::hash(symbol.name.as_bytes()) as usize % table.buckets.len();
        let chain = table.chain(bucket);
        if !chain.clone().take(table.chains.len()).any(|found| found == index) {
            return Some("does not lead to every symbol that the module defines");
        }
    }
    let endless =
        |bucket| table.chain(bucket).take(table.chains.len() + 1).count() > table.chains.len();
    if (0..table.buckets.len()).any(endless) {
        return Some("has a chain with a loop");
    }
    let outside = |&index: &u32| index as usize >= table.chains.len();
    let outside = table.buckets.iter().chain(&table.chains).any(outside);
    outside.then_some("names a symbol that does not exist")
}

/// Checks the symbols by which `link_elf_lookup_set` finds a set.
fn bounds(elf: &Elf<'_>, index: usize, section: &Section<'_>) {
    for (prefix, offset) in [("__start_", 0), ("__stop_", section.size)] {
        let name = format!("{prefix}{}", section.name);
        let symbol = elf.all_symbols().find(|of| of.name == name && !of.is_undefined());
        let found = match symbol {
            None => "not defined",
            Some(of) if (of.home, of.value) == (Home::Section(index), offset) => continue,
            Some(_) => "somewhere else",
        };
        elf.findings.section(&section.name, Rule::Bound, &[&name, &found]);
    }
}
