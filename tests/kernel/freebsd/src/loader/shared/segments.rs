//! Loads the segments of an ET_DYN file into a buffer.

use alloc::vec::Vec;
use core::ops::Range;

use object_core::LittleEndian as LE;
use object_core::elf::{self, FileHeader64, ProgramHeader64};
use object_core::read::ReadRef;

use super::super::error::{LoadError, SegmentError};
use stand_in_base::image::{MAX_SIZE, PAGE, Protection, Segment};

/// `MAXSEGS`: the maximum number of PT_LOAD segments in FreeBSD.
const MAX_SEGMENTS: usize = 4;

/// The memory of the loaded segments, and the ranges from the program headers.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) bytes: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    pub(super) loaded: Vec<Range<usize>>,
    /// Range of the dynamic section.
    pub(super) dynamic: Range<usize>,
}

/// A segment: its range in memory, its contents in the file, and its protection.
struct Placed<'a> {
    memory: Range<usize>,
    contents: &'a [u8],
    protection: Protection,
}

impl Segments {
    /// Finds the segments and loads them.
    pub(super) fn load(data: &[u8], header: &FileHeader64<LE>) -> Result<Self, LoadError> {
        let mut placed: Vec<Placed<'_>> = Vec::new();
        let mut dynamic = None;
        for segment in program_headers(data, header)? {
            match segment.p_type.get(LE) {
                elf::PT_LOAD if placed.len() == MAX_SEGMENTS => {
                    return Err(LoadError::TooManySegments);
                }
                elf::PT_LOAD => {
                    let next = place(data, segment, placed.last());
                    let number = placed.len();
                    placed.push(next.map_err(|error| match error {
                        Unfit::Bad(error) => LoadError::Segment { segment: number, error },
                        Unfit::TooLarge => LoadError::TooLarge,
                    })?);
                }
                elf::PT_DYNAMIC => dynamic = Some(segment),
                elf::PT_INTERP => return Err(LoadError::Interpreter),
                _ => {}
            }
        }
        let dynamic = dynamic.ok_or(LoadError::NotDynamic)?;
        let Some(last) = placed.last() else { return Err(LoadError::NoContents) };

        let mut bytes = alloc::vec![0; last.memory.end.next_multiple_of(PAGE)];
        for segment in &placed {
            let start = segment.memory.start;
            bytes[start..start + segment.contents.len()].copy_from_slice(segment.contents);
        }
        let outside = LoadError::OutsideMemory("the dynamic section");
        let start = usize::try_from(dynamic.p_vaddr.get(LE)).map_err(|_| outside.clone())?;
        let size = usize::try_from(dynamic.p_filesz.get(LE)).map_err(|_| outside.clone())?;
        let dynamic = start
            .checked_add(size)
            .filter(|&end| end <= bytes.len())
            .map(|end| start..end)
            .ok_or(outside)?;
        let segments = pages(&placed);
        let loaded = placed.into_iter().map(|segment| segment.memory).collect();
        Ok(Self { bytes, segments, loaded, dynamic })
    }
}

/// Returns the program headers, which must be in the first page: "We rely on the program header being in the first page."
fn program_headers<'a>(
    data: &'a [u8],
    header: &FileHeader64<LE>,
) -> Result<&'a [ProgramHeader64<LE>], LoadError> {
    let count = usize::from(header.e_phnum.get(LE));
    let entry_size = usize::from(header.e_phentsize.get(LE));
    let size = count * size_of::<ProgramHeader64<LE>>();
    let offset = header.e_phoff.get(LE);
    let end = offset.checked_add(size as u64);
    if entry_size != size_of::<ProgramHeader64<LE>>() || end.is_none_or(|end| end > PAGE as u64) {
        return Err(LoadError::ProgramHeaders);
    }
    data.read_slice_at(offset, count).map_err(|()| LoadError::ProgramHeaders)
}

/// Why a segment cannot be placed.
enum Unfit {
    Bad(SegmentError),
    TooLarge,
}

impl From<SegmentError> for Unfit {
    fn from(error: SegmentError) -> Self {
        Self::Bad(error)
    }
}

/// Checks a segment and returns its place in memory. In addition to FreeBSD's checks, the segments must be in ascending order.
fn place<'a>(
    data: &'a [u8],
    segment: &ProgramHeader64<LE>,
    before: Option<&Placed<'_>>,
) -> Result<Placed<'a>, Unfit> {
    let number = |value: u64| usize::try_from(value).map_err(|_| Unfit::TooLarge);
    let start = number(segment.p_vaddr.get(LE))?;
    let size = number(segment.p_memsz.get(LE))?;
    let end = start.checked_add(size).filter(|&end| end <= MAX_SIZE).ok_or(Unfit::TooLarge)?;
    if segment.p_filesz.get(LE) > segment.p_memsz.get(LE) {
        return Err(SegmentError::Sizes.into());
    }
    let contents = data
        .read_bytes_at(segment.p_offset.get(LE), segment.p_filesz.get(LE))
        .map_err(|()| SegmentError::Truncated)?;
    let flags = segment.p_flags.get(LE);
    let protection = match (flags.contains(elf::PF_W), flags.contains(elf::PF_X)) {
        (true, true) => return Err(SegmentError::WritableCode.into()),
        (true, false) => Protection::Write,
        (false, true) => Protection::Execute,
        (false, false) => Protection::Read,
    };
    match before {
        // The first segment must start in page 0, because the addresses in the file are offsets from the base.
        None if start >= PAGE => return Err(SegmentError::Order.into()),
        Some(before) if start < before.memory.end => return Err(SegmentError::Order.into()),
        Some(before)
            if start < before.memory.end.next_multiple_of(PAGE)
                && protection != before.protection =>
        {
            return Err(SegmentError::SharedPage.into());
        }
        _ => {}
    }
    Ok(Placed { memory: start..end, contents, protection })
}

/// Returns the pages, grouped by protection. Gaps between segments are read-only.
fn pages(placed: &[Placed<'_>]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut end = 0;
    let mut add = |until: usize, protection| {
        if until <= end {
            return;
        }
        match segments.last_mut() {
            Some(last) if last.protection == protection => last.size = until - last.offset,
            _ => segments.push(Segment { offset: end, size: until - end, protection }),
        }
        end = until;
    };
    for segment in placed {
        add(segment.memory.start / PAGE * PAGE, Protection::Read);
        add(segment.memory.end.next_multiple_of(PAGE), segment.protection);
    }
    segments
}
