//! Finds frameworks in a dump.

use dtrace_abi::postmortem::{ALIGNMENT, Header, MAGIC, VERSION};
use dtrace_abi::reader::{Field, Reader};

use super::error::DumpErrorKind;
use super::image::{Image, ImageError, Segment, Space};

/// The memory of a framework. All positions are offsets from its beginning.
#[derive(Debug)]
pub(super) struct Memory<'i> {
    image: &'i Image,
    space: Space,
    at: u64,
    pub(super) header: Header,
}

impl Memory<'_> {
    /// Returns whether the dump is shorter than its headers say.
    pub(super) const fn is_cut(&self) -> bool {
        self.image.is_cut
    }

    /// Counts bytes that are read. Returns `None` when the sum exceeds the limit for a consistent dump: then its
    /// structures refer to the same bytes repeatedly.
    pub(super) fn spend(&self, bytes: u64) -> Option<()> {
        self.image.spend(bytes)
    }

    /// Returns whether reads have exceeded what a consistent dump can have.
    pub(super) fn is_spent(&self) -> bool {
        self.image.is_spent()
    }

    /// Reads bytes; `None` if they are not in the dump.
    pub(super) fn bytes(&self, at: u64, count: u64) -> Option<Vec<u8>> {
        if count == 0 {
            // An empty table may have any position.
            return Some(Vec::new());
        }
        let end = at.checked_add(count)?;
        if end > self.header.size || count > self.image.size() {
            return None;
        }
        self.spend(count)?;
        let mut bytes = vec![0; usize::try_from(count).ok()?];
        self.image.read(self.space, self.at.checked_add(at)?, &mut bytes)?;
        Some(bytes)
    }

    /// Reads a structure.
    pub(super) fn get<T: Field>(&self, at: u64) -> Option<T> {
        let bytes = self.bytes(at, T::SIZE as u64)?;
        T::read(&mut Reader::new(&bytes)).ok()
    }

    /// Reads an array of structures.
    pub(super) fn list<T: Field>(&self, at: u64, count: u64) -> Option<Vec<T>> {
        let bytes = self.bytes(at, count.checked_mul(T::SIZE as u64)?)?;
        let mut reader = Reader::new(&bytes);
        (0..count).map(|_| T::read(&mut reader).ok()).collect()
    }

    /// Returns the size of a word in bytes.
    pub(super) const fn word(&self) -> usize {
        self.header.word as usize
    }

    /// Reads a word.
    pub(super) fn get_word(&self, at: u64) -> Option<u64> {
        if self.header.word == 4 { self.get::<u32>(at).map(u64::from) } else { self.get(at) }
    }
}

/// The number of bytes that are skipped at once if all are zero, as most memory is.
const BLOCK: usize = 4096;
static ZEROS: [u8; BLOCK] = [0; BLOCK];
const _: () = assert!(MAGIC[0] != 0 && BLOCK.is_multiple_of(ALIGNMENT));

/// The header of a framework, and its place in a segment.
struct Found {
    segment: Segment,
    inside: u64,
    header: Header,
}

/// Returns the memory of all frameworks in a dump.
pub(super) fn all(image: &Image) -> Result<Vec<Memory<'_>>, DumpErrorKind> {
    let (mut found, mut other) = (Vec::new(), None);
    for segment in &image.segments {
        let look = |at: u64, piece: &[u8]| {
            let blocks = (0..piece.len()).step_by(BLOCK);
            let blocks = blocks.map(|start| start..piece.len().min(start + BLOCK));
            let filled = blocks.filter(|block| piece[block.clone()] != ZEROS[..block.len()]);
            let places = filled.flat_map(|block| block.step_by(ALIGNMENT));
            for inside in places.filter(|inside| piece[*inside..].starts_with(&MAGIC)) {
                let Ok(header) = Header::read(&mut Reader::new(&piece[inside..])) else { continue };
                match header.version {
                    VERSION if header.is_whole() && matches!(header.word, 4 | 8) => {
                        found.push(Found { segment: *segment, inside: at + inside as u64, header });
                    }
                    // A version of 1000 or more is no header: the bytes are text of a program that searches for the mark.
                    version @ 1..1000 if version != VERSION => other = Some(version),
                    _ => {}
                }
            }
        };
        // A piece and the next one overlap by less than a header, so none is found twice.
        let overlap = (Header::SIZE - 1) / ALIGNMENT * ALIGNMENT;
        image.scan(segment, overlap, look).map_err(ImageError::Io)?;
    }
    if found.is_empty() {
        let none = DumpErrorKind::None { is_cut: image.is_cut };
        return Err(other.map_or(none, DumpErrorKind::Version));
    }
    // Memory may be mapped several times. At the framework's own address it is contiguous.
    let place = |found: &Found, space| found.segment.at(space).checked_add(found.inside);
    let is_own = |of: &Found| place(of, Space::Virtual) == Some(of.header.address);
    let is_mapped = found.iter().any(is_own);
    found.retain(|of| !is_mapped || is_own(of));
    let space = if is_mapped { Space::Virtual } else { Space::Physical };
    let mut all: Vec<_> = found
        .iter()
        .filter_map(|of| Some(Memory { image, space, at: place(of, space)?, header: of.header }))
        .collect();
    all.sort_by_key(|memory| memory.at);
    all.dedup_by_key(|memory| memory.at);
    Ok(all)
}
