//! One change of a module's file: of a byte anywhere, or of a field of a table.

use std::ops::Range;

use fastrand::Rng;

/// Types of sections.
const SYMBOLS: [u64; 2] = [2, 11];
const RELOCATIONS: u64 = 4;
const NOBITS: u64 = 8;
/// `SHF_EXECINSTR`.
const EXECUTABLE: u64 = 4;

/// The first bytes of sites of x86-64, AArch64 and RISC-V, and of calls of x86-64.
const SITES: [&[u8]; 4] =
    [&[0x0f, 0x1f, 0x44, 0], &[0x1f, 0x20, 0x03, 0xd5], &[0x13, 0, 0, 0], &[0xe8, 0, 0, 0]];

/// Fields of the tables' entries: their offsets and sizes in bytes.
const OF_RELOCATION: [(usize, usize); 4] = [(0, 8), (8, 4), (12, 4), (16, 8)];
const OF_SYMBOL: [(usize, usize); 5] = [(0, 4), (4, 1), (6, 2), (8, 8), (16, 8)];
const OF_SECTION: [(usize, usize); 10] =
    [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)];

/// A table.
struct Table {
    /// Its place in the file.
    at: Range<usize>,
    /// Bytes of an entry.
    entry: usize,
    fields: &'static [(usize, usize)],
}

/// Changes a file. Returns a description of the change.
pub(super) fn change(random: &mut Rng, file: &mut [u8]) -> String {
    match random.u8(0..10) {
        0..3 => byte(random, file),
        3 => swap(random, file),
        4 => near_code(random, file),
        _ => field(random, file),
    }
}

/// Changes a byte of the header, the section table, or a section. Small sections are chosen as often as large ones.
fn byte(random: &mut Rng, file: &mut [u8]) -> String {
    let mut places = vec![0..64, section_table(file)];
    places.extend(sections(file).map(|section| section.at));
    places.retain(|place| !place.is_empty());
    let place = places[random.usize(..places.len())].clone();
    let at = random.usize(place);
    flip(random, file, at)
}

/// Changes a byte of code next to a site, or next to a call that the loader relocates.
fn near_code(random: &mut Rng, file: &mut [u8]) -> String {
    let code = sections(file).filter(|of| of.flags & EXECUTABLE != 0);
    let starts: Vec<_> = code
        .flat_map(|code| {
            let sites = file[code.at.clone()].windows(4);
            let sites = sites.enumerate().filter(|(_, bytes)| SITES.contains(bytes));
            sites.map(move |(offset, _)| code.at.start + offset).collect::<Vec<_>>()
        })
        .collect();
    let Some(start) = (!starts.is_empty()).then(|| starts[random.usize(..starts.len())]) else {
        return String::new();
    };
    let at = (start + random.usize(..16)).saturating_sub(6);
    flip(random, file, at)
}

fn flip(random: &mut Rng, file: &mut [u8], at: usize) -> String {
    let Some(byte) = file.get_mut(at) else { return String::new() };
    let from = *byte;
    *byte = if random.bool() { from ^ 1 << random.u8(..8) } else { random.u8(..) };
    format!("byte {at:#x} from {from:#x} to {byte:#x}")
}

/// Swaps two entries of a table, or one field of both.
fn swap(random: &mut Rng, file: &mut [u8]) -> String {
    let table = table(random, file);
    let (first, second) = (entry(random, &table), entry(random, &table));
    let (at, width) = if random.bool() {
        (0, table.entry)
    } else {
        table.fields[random.usize(..table.fields.len())]
    };
    for offset in at..at + width {
        file.swap(first + offset, second + offset);
    }
    format!("{width} bytes at {:#x} and {:#x} swapped", first + at, second + at)
}

/// Changes a field of a table.
fn field(random: &mut Rng, file: &mut [u8]) -> String {
    let table = table(random, file);
    let (offset, width) = table.fields[random.usize(..table.fields.len())];
    let at = entry(random, &table) + offset;
    let from = number(file, at, width);
    let to = match random.u8(..6) {
        0 => from.wrapping_add_signed(random.i64(-16..=16)),
        1 => from.wrapping_add_signed(random.i64(-512..=512)),
        2 => from ^ 1 << random.usize(..8 * width),
        3 => number(file, entry(random, &table) + offset, width),
        4 => random.u64(..8),
        _ => random.u64(..) >> random.u8(..64),
    };
    file[at..at + width].copy_from_slice(&to.to_le_bytes()[..width]);
    format!("{width} bytes at {at:#x}, of an entry of {}, from {from:#x} to {to:#x}", table.entry)
}

/// Chooses a table: relocations most often, then symbols, then section headers.
fn table(random: &mut Rng, file: &[u8]) -> Table {
    let of = |kinds: &[u64]| -> Vec<Range<usize>> {
        let found = sections(file).filter(|of| kinds.contains(&of.kind) && of.at.len() >= 24);
        found.map(|of| of.at).collect()
    };
    let (relocations, symbols) = (of(&[RELOCATIONS]), of(&SYMBOLS));
    let pick = |random: &mut Rng, from: &[Range<usize>]| from[random.usize(..from.len())].clone();
    match random.u8(..10) {
        0..5 if !relocations.is_empty() => {
            Table { at: pick(random, &relocations), entry: 24, fields: &OF_RELOCATION }
        }
        5..8 => Table { at: pick(random, &symbols), entry: 24, fields: &OF_SYMBOL },
        _ => Table { at: section_table(file), entry: 64, fields: &OF_SECTION },
    }
}

fn entry(random: &mut Rng, table: &Table) -> usize {
    table.at.start + random.usize(..table.at.len() / table.entry) * table.entry
}

/// A section's header.
pub(super) struct Section {
    kind: u64,
    flags: u64,
    /// Its place in the file.
    at: Range<usize>,
}

fn header(file: &[u8], index: usize) -> Section {
    let header = section_table(file).start + 64 * index;
    let (start, size) = (number(file, header + 24, 8), number(file, header + 32, 8));
    let kind = number(file, header + 4, 4);
    let size = if kind == NOBITS { 0 } else { size };
    Section {
        kind,
        flags: number(file, header + 8, 8),
        at: start as usize..(start + size) as usize,
    }
}

fn sections(file: &[u8]) -> impl Iterator<Item = Section> {
    (0..section_table(file).len() / 64).map(|index| header(file, index))
}

/// Returns the place of the section headers.
pub(super) fn section_table(file: &[u8]) -> Range<usize> {
    let (start, count) = (number(file, 0x28, 8) as usize, number(file, 0x3c, 2) as usize);
    start..start + 64 * count
}

/// A little-endian number.
fn number(file: &[u8], at: usize, width: usize) -> u64 {
    file[at..at + width].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
