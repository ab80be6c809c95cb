//! A kernel interface for reading memory.

use core::ops::Range;

use crate::kernel::Kernel;

/// A [`Kernel`] that lets programs read memory that is always mapped, and supports nothing else. For
/// [`Host::kernel`](crate::Host::kernel) and [`Machine::kernel`](crate::smp::Machine::kernel). A kernel that supports more can
/// call this one in its own [`load`](Kernel::load).
///
/// Without it, D can print an argument that is an address, but a read at that address is a fault (invalid address).
///
/// ```
/// use sdt_framework::kernel::{Kernel as _, Readable};
///
/// static TEXT: [u8; 5] = *b"hello";
///
/// let start = TEXT.as_ptr().expose_provenance();
/// let ranges = Box::leak(Box::new([start..start + TEXT.len()]));
/// // SAFETY: a static is always mapped.
/// let readable = unsafe { Readable::new(ranges) };
/// let mut into = [0; 4];
/// assert!(readable.load(start as u64 + 1, &mut into) && into == *b"ello");
/// assert!(!readable.load(start as u64 + 2, &mut into), "one byte more than there is");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Readable {
    ranges: &'static [Range<usize>],
    /// The text of the kernel, for stacks.
    text: &'static [Range<usize>],
}

impl Readable {
    /// Allows reading these ranges. Each read must be inside one range, so pass adjacent ranges as one.
    ///
    /// # Safety
    /// From the first use until the program ends, all of these addresses are mapped and readable on every CPU and in any
    /// context, and reading has no side effects: they are RAM or ROM, not device memory. The content may change at any time.
    pub const unsafe fn new(ranges: &'static [Range<usize>]) -> Self {
        Self { ranges, text: &[] }
    }

    /// Adds `stack()`, `caller` and `stackdepth` of hits that a site made, for a kernel whose text these ranges contain. The stacks
    /// are read as other memory, so the readable ranges have to contain them. The kernel, with this crate and `core`, must be
    /// compiled with frame pointers: `-C force-frame-pointers=yes`, and `-Zbuild-std=core` if the target's `core` has none. A
    /// function without frame pointers is missing in the stack.
    pub const fn with_stacks(self, text: &'static [Range<usize>]) -> Self {
        Self { text, ..self }
    }

    fn word(&self, address: usize) -> Option<usize> {
        let mut word = [0; size_of::<usize>()];
        self.load(address as u64, &mut word).then(|| usize::from_ne_bytes(word))
    }

    /// Returns whether all of these bytes are in one range.
    fn contains(&self, start: usize, length: usize) -> bool {
        start.checked_add(length).is_some_and(|end| {
            self.ranges.iter().any(|range| range.start <= start && end <= range.end)
        })
    }
}

impl Kernel for Readable {
    /// Returns 0: the framework uses the clock of the host.
    fn timestamp(&self) -> u64 {
        0
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        let start = usize::try_from(address).ok();
        let Some(start) = start.filter(|start| self.contains(*start, into.len())) else {
            return false;
        };
        for (address, byte) in (start..).zip(into) {
            let from = core::ptr::with_exposed_provenance::<u8>(address);
            // SAFETY: `contains` has checked the range, which is mapped and readable, as `new` requires. Volatile, because other
            // threads may write there.
            *byte = unsafe { from.read_volatile() };
        }
        true
    }

    fn stack(&self, _own: u32, frames: &mut [u64]) -> usize {
        if self.text.is_empty() {
            return 0;
        }
        let is_text = |address| self.text.iter().any(|range| range.contains(&address));
        sdt_core::frames::stack_of_hit(|address| self.word(address), is_text, frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_that_is_not_in_a_range() {
        let text: &'static [u8; 16] = Box::leak(Box::new(*b"0123456789abcdef"));
        let start = text.as_ptr().expose_provenance();
        let ranges = Box::leak(Box::new([start + 2..start + 6, start + 6..start + 8, 0..0]));
        // SAFETY: the memory is leaked, so it stays mapped and readable.
        let readable = unsafe { Readable::new(ranges) };
        for from in 0..16 {
            for length in 0..16 - from {
                let mut into = [b'x'; 16];
                let into = &mut into[..length];
                let is_in =
                    |range: &Range<usize>| range.contains(&from) && from + length <= range.end;
                let expected = is_in(&(2..6)) || is_in(&(6..8));
                // A read of 0 bytes is harmless, whatever it returns.
                let read = readable.load((start + from) as u64, into);
                assert!(read == expected || length == 0, "{length} bytes at {from}");
                let expected =
                    if read { &text[from..from + length] } else { &[b'x'; 16][..length] };
                assert_eq!(into, expected);
            }
        }
        for nowhere in [0, 1, u64::MAX - 3, u64::MAX, 1 << 63] {
            assert!(!readable.load(nowhere, &mut [0; 4]), "{nowhere:#x}");
        }
    }

    #[test]
    fn the_end_of_all_addresses_is_no_wrap() {
        const ALL: Range<usize> = 1..usize::MAX;
        // SAFETY: nothing of it is read.
        let all = unsafe { Readable::new(core::slice::from_ref(&ALL)) };
        assert!(!all.contains(usize::MAX - 2, 4) && !all.contains(usize::MAX, 1));
        assert!(all.contains(1, usize::MAX - 1));
    }
}
