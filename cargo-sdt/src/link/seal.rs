//! The seal of a module: a checksum of its file, at the end of the file, after all contents.
//!
//! The rules cannot find most changes of a byte: a call to another function, or another number, is as valid as the original. So
//! the link appends a checksum, and the check refuses a file that does not match its checksum. No kernel reads it, and tools that
//! write another file (strip, objcopy) drop it: a file without a checksum is checked by the rules alone. The seal finds damage,
//! not malice: a tool that changes a module on purpose can seal it again.

use crc::{CRC_64_XZ, Crc, Table};
use object::Endianness;
use object::elf::{FileHeader64, SHT_NOBITS};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};

/// The beginning of the seal. The checksum of all bytes before it follows, in little-endian order.
const MARK: [u8; 8] = *b"\nsdtseal";
/// Bytes of a seal.
pub const SEAL: usize = MARK.len() + 8;
const CRC: Crc<u64, Table<1>> = Crc::<u64, Table<1>>::new(&CRC_64_XZ);

/// Appends the seal to a linked module.
pub fn seal(image: &mut Vec<u8>) {
    let sum = CRC.checksum(image).to_le_bytes();
    image.extend([MARK, sum].concat());
}

/// A file's seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// The seal matches the contents.
    Whole,
    /// The seal does not match the contents, or the file has other bytes after the contents: a part of a seal, or
    /// several seals.
    Broken,
    /// The file has no seal.
    None,
}

impl Seal {
    /// The seal of a file.
    pub(crate) fn of(file: &[u8]) -> Self {
        let sealed = file.split_last_chunk::<8>().and_then(|(rest, sum)| {
            Some(CRC.checksum(rest.strip_suffix(&MARK)?).to_le_bytes() == *sum)
        });
        match sealed {
            Some(true) => Self::Whole,
            Some(false) => Self::Broken,
            // Other linkers may pad their files.
            None if behind(file).iter().all(|byte| *byte == 0) => Self::None,
            None => Self::Broken,
        }
    }
}

/// Returns the bytes after everything that the tables of an ELF file refer to; none if the file is not ELF.
fn behind(file: &[u8]) -> &[u8] {
    end(file).and_then(|end| file.get(end..)).unwrap_or_default()
}

/// Returns the end of the last header, section or segment.
fn end(file: &[u8]) -> Option<usize> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let table = |offset: u64, entry: u16, count: usize| {
        offset.checked_add(u64::from(entry).checked_mul(count as u64)?)
    };
    let sections = header.section_headers(endian, file).ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let mut ends = vec![
        table(header.e_shoff(endian), header.e_shentsize(endian), sections.len())?,
        table(header.e_phoff(endian), header.e_phentsize(endian), segments.len())?,
    ];
    for section in sections.iter().filter(|section| section.sh_type(endian) != SHT_NOBITS) {
        ends.push(section.sh_offset(endian).checked_add(section.sh_size(endian))?);
    }
    for segment in segments {
        ends.push(segment.p_offset(endian).checked_add(segment.p_filesz(endian))?);
    }
    ends.into_iter().max()?.try_into().ok()
}

#[cfg(test)]
#[path = "../../tests/unit/link/seal.rs"]
mod tests;
