//! The file of a dump: the location of each part of memory in it.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endianness, elf};

use crate::system::reason;

/// The maximum number of bytes that are read at a time.
const CHUNK: usize = 1 << 20;
/// The maximum number of bytes that are read from a dump, as a multiple of its size: a consistent dump has each structure once,
/// and only short parts are read twice.
const TIMES: u64 = 4;

/// Why a file cannot be read as a dump.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file cannot be read.
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    /// The ELF file is damaged.
    #[error("the ELF file is damaged or truncated: {0}")]
    Elf(#[from] object::Error),
    /// The ELF file is a program or an object.
    #[error("this ELF file is not a core: it contains no memory of a process or a machine")]
    NoCore,
    /// The dump is compressed.
    #[error("the dump is compressed (kdump): write it without -z, -l and -s, or convert it to ELF")]
    Compressed,
}

/// The address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Virtual,
    Physical,
}

/// A piece of memory that is in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    virtual_at: u64,
    physical_at: u64,
    /// The offset and size of its bytes in the file.
    offset: u64,
    pub(super) size: u64,
}

impl Segment {
    /// Returns the address of the segment's first byte in an address space.
    pub(super) const fn at(&self, space: Space) -> u64 {
        match space {
            Space::Virtual => self.virtual_at,
            Space::Physical => self.physical_at,
        }
    }
}

/// The file of a dump, and its segments.
#[derive(Debug)]
pub(super) struct Image {
    file: File,
    pub(super) segments: Vec<Segment>,
    /// Whether the file is shorter than its headers say.
    pub(super) is_cut: bool,
    /// Bytes that may still be taken from it.
    left: Cell<u64>,
    /// Whether a read has exceeded the limit.
    is_spent: Cell<bool>,
}

impl Image {
    pub(super) fn open(path: &Path) -> Result<Self, ImageError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut magic = [0; 8];
        let begin = (length as usize).min(magic.len());
        file.read_exact_at(&mut magic[..begin], 0)?;
        let mut image = Self {
            file,
            segments: Vec::new(),
            is_cut: false,
            left: Cell::new(length.saturating_mul(TIMES)),
            is_spent: Cell::new(false),
        };
        match &magic {
            b"KDUMP   " | b"makedump" => return Err(ImageError::Compressed),
            [0x7f, b'E', b'L', b'F', 2, ..] => {
                image.elf::<elf::FileHeader64<Endianness>>(length)?;
            }
            [0x7f, b'E', b'L', b'F', ..] => image.elf::<elf::FileHeader32<Endianness>>(length)?,
            // Raw memory, from address 0 on.
            _ => {
                let all = Segment { virtual_at: 0, physical_at: 0, offset: 0, size: length };
                image.segments.push(all);
            }
        }
        Ok(image)
    }

    fn elf<Elf: FileHeader<Endian = Endianness>>(&mut self, length: u64) -> Result<(), ImageError> {
        let cache = ReadCache::new(&self.file);
        let header = Elf::parse(&cache)?;
        let endian = header.endian()?;
        if header.e_type(endian) != elf::ET_CORE {
            return Err(ImageError::NoCore);
        }
        let (mut segments, mut is_cut) = (Vec::new(), false);
        for program in header.program_headers(endian, &cache)? {
            if program.p_type(endian) != elf::PT_LOAD {
                continue;
            }
            let offset: u64 = program.p_offset(endian).into();
            let wanted: u64 = program.p_filesz(endian).into();
            let size = wanted.min(length.saturating_sub(offset));
            is_cut |= size < wanted;
            let (virtual_at, physical_at) =
                (program.p_vaddr(endian).into(), program.p_paddr(endian).into());
            if size != 0 {
                segments.push(Segment { virtual_at, physical_at, offset, size });
            }
        }
        (self.segments, self.is_cut) = (segments, is_cut);
        Ok(())
    }

    /// Calls `look` with each piece of a segment and its offset in the segment. Each piece overlaps the previous one by
    /// `overlap` bytes.
    pub(super) fn scan(
        &self,
        segment: &Segment,
        overlap: usize,
        mut look: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        let mut at = 0;
        while at < segment.size {
            let length = (segment.size - at).min(CHUNK as u64) as usize;
            let piece = &mut buffer[..length];
            self.file.read_exact_at(piece, segment.offset + at)?;
            look(at, piece);
            if length < CHUNK {
                break;
            }
            at += (CHUNK - overlap) as u64;
        }
        Ok(())
    }

    /// Reads the bytes at an address; `None` if the dump does not contain all of them.
    pub(super) fn read(&self, space: Space, mut at: u64, mut into: &mut [u8]) -> Option<()> {
        while !into.is_empty() {
            let found = self.segments.iter().find_map(|segment| {
                let inside = at.checked_sub(segment.at(space))?;
                (inside < segment.size).then_some((segment, inside))
            });
            let (segment, inside) = found?;
            let length =
                into.len().min(usize::try_from(segment.size - inside).unwrap_or(usize::MAX));
            let (head, tail) = into.split_at_mut(length);
            self.file.read_exact_at(head, segment.offset + inside).ok()?;
            (at, into) = (at.checked_add(length as u64)?, tail);
        }
        Some(())
    }

    /// Subtracts `bytes` from the remaining ones; `None` if fewer remain.
    pub(super) fn spend(&self, bytes: u64) -> Option<()> {
        let left = self.left.get().checked_sub(bytes);
        self.is_spent.set(self.is_spent.get() || left.is_none());
        self.left.set(left?);
        Some(())
    }

    /// Returns whether a call of `spend` has failed.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    /// Returns the size of all memory in the dump. No structure in it can be larger.
    pub(super) fn size(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| segment.size.saturating_add(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_is_taken_a_few_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dump");
        std::fs::write(&file, [0; 100]).unwrap();
        let image = Image::open(&file).unwrap();
        assert_eq!(
            (image.spend(300), image.spend(100), image.is_spent()),
            (Some(()), Some(()), false)
        );
        assert_eq!((image.spend(1), image.is_spent()), (None, true));
    }
}
