//! The functions of a mapped file, from its tables of symbols.

use std::ffi::CStr;

use super::image::{Image, Range};
use super::meter::Meter;
use super::part::LONGEST;

/// Size of an entry (`Elf64_Sym`).
const ENTRY: usize = 24;
/// Types of symbols, and the section of an undefined one (System V ABI, gABI 4.3, "Symbol Table").
const NOTYPE: u8 = 0;
const FUNC: u8 = 2;
const UNDEFINED: u16 = 0;
/// Steps for each entry: sorting compares it a few times.
const STEPS: u64 = 8;

/// A function of a file. Its name stays in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub address: u64,
    pub size: u64,
    name: u32,
    length: u32,
}

impl Function {
    /// Returns its name, escaped.
    pub fn name(&self, image: &Image) -> String {
        let (start, length) = (self.name as usize, self.length as usize);
        crate::escape::name(image.bytes.get(start..start + length).unwrap_or_default())
    }
}

/// Returns the functions of a file in the order of their addresses, as far as the limits permit.
pub(super) fn read(image: &Image, meter: &Meter) -> Vec<Function> {
    let entries: usize = image.symbol_tables().map(|(table, _)| table.len() / ENTRY).sum();
    let bytes = (entries * size_of::<Function>()) as u64;
    if !meter.keep(bytes) || !meter.step(entries as u64 * STEPS) {
        return Vec::new();
    }
    let mut all = Vec::with_capacity(entries);
    for (table, names) in image.symbol_tables() {
        for at in table.step_by(ENTRY).take_while(|at| at + ENTRY <= image.bytes.len()) {
            all.extend(function(image, at, &names, meter));
        }
    }
    // Of several names of one function, the shortest one is kept.
    all.sort_unstable_by_key(|of| (of.address, of.length, of.name));
    all.dedup_by_key(|of| of.address);
    all.shrink_to_fit();
    meter.release(bytes - (all.len() * size_of::<Function>()) as u64);
    all
}

/// Reads `Elf64_Sym`; `None` if it is no definition of a function, or its name is too long.
fn function(image: &Image, at: usize, names: &Range, meter: &Meter) -> Option<Function> {
    let kind = image.bytes[at + 4] & 15;
    let is_code = kind == FUNC || kind == NOTYPE;
    if !is_code || image.u16(at + 6)? == UNDEFINED {
        return None;
    }
    let names = image.bytes.get(names.clone()).map(|bytes| (names.start, bytes))?;
    let (start, name) = (image.u32(at)? as usize, names.1.get(image.u32(at)? as usize..)?);
    let end = CStr::from_bytes_until_nul(&name[..name.len().min(LONGEST)]).ok();
    let end = end.map(CStr::count_bytes);
    let length = end.unwrap_or(LONGEST) as u32;
    if !meter.step(u64::from(length) / 16) || end.is_none_or(|end| end == 0) {
        return None;
    }
    let (address, size) = (image.u64(at + 8)?, image.u64(at + 16)?);
    Some(Function { address, size, name: (names.0 + start) as u32, length })
}
