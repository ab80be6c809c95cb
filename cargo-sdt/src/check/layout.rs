//! What holds of every relocatable file that a compiler and a linker have written, whoever loads it: sections that
//! lie side by side and are of known types, and tables that are what their names say. A file that breaks one of these
//! rules has been damaged, and no loader would notice.

use std::collections::BTreeMap;

use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use super::finding::{Findings, Problem};
use crate::link::is_set;

type Header = elf::FileHeader64<Endianness>;

/// What a module tells the link step that it depends on.
const DEPENDS: &str = ".sdt_depends";

/// What relocations are called: this, and behind it the name of what they are of.
const RELOCATIONS: &str = ".rela";

/// Most bytes of memory that a module may take: kernels and all their modules are in two gigabytes, or less
/// (`KERNBASE` of FreeBSD's `sys/amd64/include/vmparam.h`).
pub(super) const MOST_MEMORY: u64 = 1 << 29;

/// What names of sets begin with.
const SETS: [&str; 4] = ["set_", "linkme_", "linkm2_", "sdt_"];
/// Bytes of an address.
const WORD: u64 = 8;

const FILE_HEADER: u64 = 64;
const SECTION_HEADER: u64 = 64;

/// A section, as far as it is looked at here.
struct Section {
    name: String,
    kind: elf::SectionType,
    flags: elf::SectionFlags,
    address: u64,
    offset: u64,
    size: u64,
    info: usize,
}

/// Checks a relocatable file that has been found to be one.
pub(super) fn check(data: &[u8], findings: &mut Findings) {
    // What cannot be read has been reported.
    let Ok(header) = Header::parse(data) else { return };
    let Some(sections) = read(header, data) else { return };
    let table = header.e_shoff(Endianness::Little);
    for section in &sections {
        let mut wrong = |problem| findings.section(&section.name, problem);
        if section.address != 0 {
            wrong(Problem::Address(section.address));
        }
        if !is_known(section.kind) {
            wrong(Problem::UnknownType(section.kind.0));
        }
        if section.name == DEPENDS {
            wrong(Problem::Leftover);
        }
        let loaded = section.flags.contains(elf::SHF_ALLOC);
        if loaded && section.flags.contains(elf::SHF_COMPRESSED) {
            wrong(Problem::Compressed);
        }
        if !loaded && section.size > 0 && is_known_set(&section.name) {
            wrong(Problem::SetNotLoaded);
        }
        if let Some(of) = section.name.strip_prefix(RELOCATIONS)
            && let Some(found) = other_relocations(&sections, section, of)
        {
            wrong(Problem::RelocationsOf { expected: of.to_owned(), found });
        }
        if let Some(offset) = descent(data, section) {
            findings.offset(&section.name, offset, Problem::RelocationOrder);
        }
    }
    places(data, &sections, table, findings);
}

fn read(header: &Header, data: &[u8]) -> Option<Vec<Section>> {
    let endian = header.endian().ok()?;
    let table = header.sections(endian, data).ok()?;
    let section = |of: &elf::SectionHeader64<Endianness>| {
        let name = table.section_name(endian, of).unwrap_or_default();
        Section {
            name: String::from_utf8_lossy(name).into_owned(),
            kind: of.sh_type(endian),
            flags: of.sh_flags(endian),
            address: of.sh_addr(endian),
            offset: of.sh_offset(endian),
            size: of.sh_size(endian),
            info: of.sh_info(endian) as usize,
        }
    };
    Some(table.iter().map(section).collect())
}

/// Whether a section is a set, by a name that loaders or modules look for: FreeBSD's, linkme's and sdt-core's. Others may
/// be called so without being one.
fn is_known_set(name: &str) -> bool {
    is_set(name) && SETS.iter().any(|prefix| name.starts_with(prefix))
}

/// Reports sections of data that could be anywhere, though there are addresses in them that a compiler has aligned. Of
/// each relocation of a section: where it is in that.
pub(super) fn alignment(
    name: &str,
    align: u64,
    addresses: impl Iterator<Item = u64>,
    findings: &mut Findings,
) {
    // Sets have rules of their own, and a packed structure has addresses anywhere.
    if is_set(name) || !align.is_power_of_two() {
        return;
    }
    let mut addresses = addresses.peekable();
    if align < WORD && addresses.peek().is_some() && addresses.all(|at| at.is_multiple_of(WORD)) {
        findings.section(name, Problem::LowAlignment(align));
    }
}

/// Whether a symbol's section number is one of those that mean something else, but for the two that are known: FreeBSD's
/// loader marks with one of them (`SHN_FBSD_CACHED`) what it has looked up.
pub(super) fn is_reserved(number: elf::SymbolSection) -> bool {
    number >= elf::SymbolSection(elf::SHN_LORESERVE)
        && !matches!(number, elf::SHN_ABS | elf::SHN_COMMON | elf::SHN_XINDEX)
}

/// Whether a type is one of the generic ones, or of those that compilers and linkers for these systems add.
fn is_known(kind: elf::SectionType) -> bool {
    matches!(
        kind.0,
        // Up to SHT_DYNSYM, and from SHT_INIT_ARRAY to SHT_RELR.
        0..=11 | 14..=19
        // LLVM's, Solaris's and GNU's.
        | 0x6fff_4c00..=0x6fff_4c0f | 0x6fff_ffec..=0x6fff_ffff
        // SHT_X86_64_UNWIND, and attributes of other processors.
        | 0x7000_0001 | 0x7000_0003
    )
}

/// What is wrong with relocations that by their name are those `of` a section.
fn other_relocations(sections: &[Section], section: &Section, of: &str) -> Option<String> {
    // `.rela` alone may be of anything, and what is of nothing, or has no addends, is reported as such.
    if of.is_empty() || section.kind == elf::SHT_REL {
        return None;
    }
    if section.kind != elf::SHT_RELA {
        return Some(format!("of type {:#x}", section.kind.0));
    }
    let target = sections.get(section.info).filter(|_| section.info != 0)?;
    (target.name != of).then(|| format!("applied to {}", target.name))
}

/// Returns the offset of the first relocation of a table that applies in front of the one before it.
fn descent(data: &[u8], table: &Section) -> Option<u64> {
    if table.kind != elf::SHT_RELA {
        return None;
    }
    let start = usize::try_from(table.offset).ok()?;
    let entries = data.get(start..start.checked_add(usize::try_from(table.size).ok()?)?)?;
    let applies = |entry: &[u8; 24]| entry.first_chunk().map(|offset| u64::from_le_bytes(*offset));
    let entries = entries.as_chunks::<24>().0;
    let at = entries.windows(2).position(|pair| applies(&pair[1]) < applies(&pair[0]))?;
    Some(24 * (at as u64 + 1))
}

/// Everything in the file is a section, or one of the two tables of headers; between them is padding.
fn places(data: &[u8], sections: &[Section], table: u64, findings: &mut Findings) {
    let size = sections.len() as u64 * SECTION_HEADER;
    let mut places =
        vec![(0, FILE_HEADER, "the file's header"), (table, size, "the section table")];
    let in_file = sections.iter().filter(|section| {
        !matches!(section.kind, elf::SHT_NOBITS | elf::SHT_NULL) && section.size != 0
    });
    places.extend(in_file.map(|section| (section.offset, section.size, &*section.name)));
    places.sort_unstable();
    places.dedup_by_key(|&mut (offset, size, _)| (offset, size));
    for pair in places.windows(2) {
        let [(offset, size, before), (next, _, name)] = *pair else { continue };
        let end = offset.saturating_add(size);
        if next < end {
            findings.section(name, Problem::Overlap(before.to_owned()));
            continue;
        }
        let between = usize::try_from(end).ok().zip(usize::try_from(next).ok());
        let between = between.and_then(|(end, next)| data.get(end..next)).unwrap_or_default();
        if between.iter().any(|&byte| byte != 0) {
            findings.file(Problem::Gap { offset: end, size: next - end });
        }
    }
}

/// Everything that is loaded has room in a kernel.
pub(super) fn memory(sizes: impl Iterator<Item = u64>, findings: &mut Findings) {
    let (size, most) = (sizes.fold(0, u64::saturating_add), MOST_MEMORY);
    if size > most {
        findings.file(Problem::TooLarge { size, most });
    }
}

/// The bounds of sets that are defined in the file are those of the sets, or 0 if there is no such set. `symbols` are the
/// names, sections and values of what is defined, numbers without a section; `sizes` the names and sizes of sections.
pub(super) fn bounds<'a>(
    symbols: impl Iterator<Item = (&'a str, Option<usize>, u64)>,
    sizes: &BTreeMap<usize, (&str, u64)>,
    findings: &mut Findings,
) {
    for (name, section, value) in symbols {
        let (set, stop) = match (name.strip_prefix("__start_"), name.strip_prefix("__stop_")) {
            (Some(set), _) => (set, false),
            (None, Some(set)) => (set, true),
            (None, None) => continue,
        };
        let right = match section {
            Some(section) => sizes
                .get(&section)
                .is_some_and(|&(name, size)| name == set && value == if stop { size } else { 0 }),
            None => value == 0 && !sizes.values().any(|(name, _)| *name == set),
        };
        if is_set(set) && !right {
            let expected = if stop { "the end" } else { "the start" };
            let problem = Problem::BoundElsewhere { section: set.to_owned(), expected };
            findings.symbol(name, problem);
        }
    }
}
