//! Segments of a shared object: what `link_elf_load_file` of `sys/kern/link_elf.c` demands of them, and that
//! the sections, by which everything else is checked, are where the segments are.

use object::Endianness;
use object::elf;
use object::read::elf::FileHeader as _;

use crate::arch::ModuleKind;
use crate::check::finding::{self, Findings};
use crate::check::freebsd::Problem;
use crate::check::image::{Image, Section, Segment};
use crate::check::layout;

const PAGE: u64 = 4096;
/// `MAXSEGS` of `link_elf.c`.
const MOST_SEGMENTS: usize = 4;

pub(crate) fn check(image: &Image<'_>, file: &[u8], findings: &mut Findings) {
    if image.arch.module_kind() == ModuleKind::Relocatable {
        return;
    }
    headers(file, findings);
    for (kind, name, expected) in [
        (elf::PT_DYNAMIC, "PT_DYNAMIC", 1),
        (elf::PT_INTERP, "PT_INTERP", 0),
        (elf::PT_TLS, "PT_TLS", 0),
    ] {
        let count = image.segments.iter().filter(|segment| segment.kind == kind).count();
        if count != expected {
            findings.file(Problem::SegmentType { kind: name, count, expected });
        }
    }
    for dynamic in image.segments.iter().filter(|segment| segment.kind == elf::PT_DYNAMIC) {
        let mut loaded = image.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD);
        let inside = |of: &Segment<'_>| {
            dynamic.address.checked_sub(of.address).is_some_and(|offset| {
                offset.checked_add(dynamic.size).is_some_and(|end| end <= of.size)
                    && of.offset.checked_add(offset) == Some(dynamic.offset)
            })
        };
        if !loaded.any(inside) {
            findings.file(finding::Problem::TableOutside("PT_DYNAMIC"));
        }
    }
    let loaded: Vec<_> =
        image.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD).collect();
    if loaded.is_empty() || loaded.len() > MOST_SEGMENTS {
        findings.file(Problem::SegmentCount(loaded.len()));
    }
    for (index, segment) in loaded.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| loaded[before]);
        for reason in wrong_with(segment, before) {
            findings.file(Problem::Segment { index, reason });
        }
    }
    // From the first to the last one is one piece of memory.
    let start = loaded.iter().map(|segment| segment.address).min().unwrap_or_default();
    let ends = loaded.iter().map(|segment| segment.address.saturating_add(segment.size));
    layout::memory(ends.max().map(|end| end - start).into_iter(), findings);
    for section in image.loaded() {
        // An empty one has no place.
        if section.size > 0 && !loaded.iter().any(|segment| holds(segment, section)) {
            findings.section(&section.name, Problem::OutsideSegments);
        }
    }
}

/// Everything the loader reads before it maps anything is in the first page of the file.
fn headers(file: &[u8], findings: &mut Findings) {
    let Ok(header) = elf::FileHeader64::<Endianness>::parse(file) else { return };
    let endian = Endianness::Little;
    let size = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
    let end = header.e_phoff(endian).saturating_add(size);
    if end > PAGE {
        findings.file(Problem::HeadersBehindFirstPage(end));
    }
}

/// What is wrong with a segment that comes after another one.
fn wrong_with(segment: &Segment<'_>, before: Option<&Segment<'_>>) -> Vec<&'static str> {
    let file_size = segment.data.map_or(0, <[u8]>::len) as u64;
    let start = segment.address - segment.address % PAGE;
    let behind = |before: &Segment<'_>| before.address.checked_add(before.size);
    let rules = [
        (segment.data.is_none(), "is not all in the file"),
        (
            segment.flags.contains(elf::PF_W | elf::PF_X),
            "is both writable and executable; the kernel must have no such memory",
        ),
        (segment.size < file_size, "is larger in the file than in memory"),
        (segment.address.checked_add(segment.size).is_none(), "ends behind all addresses"),
        (
            segment.address % PAGE != segment.offset % PAGE,
            "cannot be mapped from its place in the file",
        ),
        (
            before.is_none() && (segment.offset != 0 || !segment.address.is_multiple_of(PAGE)),
            "is the first and does not begin with the file's header, as boot loaders want",
        ),
        (
            before.is_some_and(|before| behind(before).is_none_or(|end| end > start)),
            "shares a page with the one before, or comes before it",
        ),
    ];
    rules.into_iter().filter(|&(wrong, _)| wrong).map(|(_, reason)| reason).collect()
}

/// Whether a section is in a segment, at the same place of the file and of memory, with its protection.
fn holds(segment: &Segment<'_>, section: &Section<'_>) -> bool {
    let Some(offset) = section.address.checked_sub(segment.address) else { return false };
    let inside = offset.checked_add(section.size).is_some_and(|end| end <= segment.size);
    let same_place = segment.offset.checked_add(offset) == Some(section.offset);
    inside
        && (same_place || section.kind == elf::SHT_NOBITS)
        && section.is_code() == segment.flags.contains(elf::PF_X)
        && (!section.is_writable() || segment.flags.contains(elf::PF_W))
}
