//! Memory for the code to which sites jump.
//!
//! A jump is always `e9 cc cc cc cc`: each byte after the first one is a breakpoint. So a thread that was interrupted between two
//! instructions before a jump overwrote them, or that jumps between them, hits a breakpoint, and the handler continues it in the copies
//! of these instructions. This holds at any time later, so nobody has to find or to stop these threads.
//!
//! With this displacement, the jumps of all sites lead 819 MiB below the sites. There, an area as large as the text has a *landing* for each of
//! them: a jump to the *detour*, the code that records the hit and executes the instructions that the jump has overwritten. If a
//! part of the area is not free, the sites of this text keep their breakpoints.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::list::List;

/// The length of a jump.
pub(super) const JUMP: usize = 5;
/// The bytes of a jump.
pub(super) const JUMP_CODE: [u8; JUMP] = [0xe9, BREAKPOINT, BREAKPOINT, BREAKPOINT, BREAKPOINT];
/// `int3`
pub(super) const BREAKPOINT: u8 = 0xcc;
/// The distance from the end of a site's jump to its landing.
const DISPLACEMENT: i32 = i32::from_le_bytes([BREAKPOINT; 4]);
/// The largest text whose sites jump. Detours and text must be in reach of each other's jumps.
const LARGEST: usize = 256 << 20;
/// The alignment of pages, and of detours.
const PAGE: usize = 4096;
pub(super) const DETOUR: usize = 16;

/// The memory for the landings and the detours of a text. It stays mapped until the process ends.
#[derive(Debug)]
pub(super) struct Area {
    detours: Range<usize>,
    /// The end of the detours that exist.
    next: AtomicUsize,
}

/// A text to which a site that was to jump belongs, and its area; `None` if the memory is not free.
type Reserved = (Range<usize>, Option<Area>);

static RESERVED: List<Reserved> = List::new();

/// Returns the area of the text at an address, if it is reserved. Async-signal-safe.
pub(super) fn of(address: usize) -> Option<&'static Area> {
    let (_, area) = RESERVED.iter().find(|(text, _)| text.contains(&address))?;
    area.as_ref()
}

/// Returns the area of a text, and reserves it at the first call. Only one thread at a time may call this.
pub(super) fn make(text: &Range<usize>) -> Option<&'static Area> {
    let (_, area) = RESERVED
        .iter()
        .find(|(other, _)| other == text)
        .unwrap_or_else(|| RESERVED.add((text.clone(), Area::reserve(text))));
    area.as_ref()
}

/// Returns the address to which a jump at this address leads.
pub(super) const fn landing(jump: usize) -> usize {
    jump.wrapping_add(JUMP).wrapping_add_signed(DISPLACEMENT as isize)
}

impl Area {
    /// Reserves the memory for a text. Pages that are not used take no memory. Returns `None` if it is not free.
    fn reserve(text: &Range<usize>) -> Option<Self> {
        let below = DISPLACEMENT.unsigned_abs() as usize;
        if text.is_empty() || text.len() > LARGEST || text.start < 2 * below {
            return None;
        }
        let start = landing(text.start) & !(PAGE - 1);
        let landings = (landing(text.end) + JUMP - start).next_multiple_of(PAGE);
        let length = landings + text.len().next_multiple_of(PAGE);
        let how = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        let wanted = ptr::without_provenance_mut(start);
        // SAFETY: with MAP_FIXED_NOREPLACE nothing that is mapped is replaced. Kernels before 4.17 ignore the flag.
        let mapped =
            unsafe { libc::mmap(wanted, length, libc::PROT_READ | libc::PROT_EXEC, how, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        if mapped != wanted {
            // SAFETY: this is the mapping that was made just now.
            unsafe { libc::munmap(mapped, length) };
            return None;
        }
        mapped.expose_provenance();
        let detours = start + landings..start + length;
        Some(Self { next: AtomicUsize::new(detours.start), detours })
    }

    /// Returns whether these bytes may be the beginning of a detour: they are aligned, and in memory that has detours. Async-signal-safe.
    pub(super) fn may_be_detour(&self, bytes: &Range<usize>) -> bool {
        let end = self.next.load(Ordering::Acquire);
        bytes.start.is_multiple_of(DETOUR) && self.detours.start <= bytes.start && bytes.end <= end
    }

    /// Returns the address of the next detour, if there is room for this many bytes.
    pub(super) fn room(&self, length: usize) -> Option<usize> {
        let next = self.next.load(Ordering::Relaxed);
        (length <= self.detours.end - next).then_some(next)
    }

    /// Takes the room for a detour of this length.
    pub(super) fn take(&self, length: usize) {
        self.next.fetch_add(length.next_multiple_of(DETOUR), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The landings of windows are searched also at addresses without a landing. The bytes there may look like a jump to anywhere.
    #[test]
    fn detours_are_aligned_and_complete() {
        let page = landing as *const () as usize & !(PAGE - 1);
        let area = Area::reserve(&(page..page + PAGE)).unwrap();
        let first = area.room(40).unwrap();
        let found = || {
            let all = first - 32..first + 64;
            all.filter(|start| area.may_be_detour(&(*start..start + 32))).collect::<Vec<_>>()
        };
        assert_eq!(found(), []);
        area.take(40);
        assert_eq!(found(), [first, first + 16]);
        assert_eq!(area.room(40), Some(first + 48));
    }
}
