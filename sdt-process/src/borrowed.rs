//! Memory that the site of the current hit borrows: the text and slices that it passes, and the values that it refers to.
//!
//! The types of a probe's arguments prove this ([`Borrows`]). Such memory is mapped and readable until the hit is recorded, and so
//! is the rest of its pages.

use sdt_core::arg::Borrows;
use sdt_core::ops::ARGS;

/// The arguments of a hit that a site made, or of no hit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    words: *const [u64; ARGS],
    borrows: Borrows,
}

impl Arguments {
    /// The arguments of a hit that borrows nothing.
    pub(crate) const NONE: Self = Self { words: std::ptr::null(), borrows: Borrows::NOTHING };

    /// Returns the arguments of a hit.
    ///
    /// # Safety
    /// The result is used only while `words` exist, and while the [ranges](Borrows::ranges) of `borrows` in them are mapped and readable.
    #[inline(always)]
    pub(crate) unsafe fn new(words: &[u64; ARGS], borrows: Borrows) -> Self {
        Self { words, borrows }
    }

    /// Returns whether all pages of size `page`, a power of two, with these bytes belong to one range of borrowed memory. Then all of them can be read until
    /// the caller returns. `length` is not 0. Probe context.
    pub(crate) fn contains(self, address: usize, length: usize, page: usize) -> bool {
        if self.borrows.is_nothing() {
            return false;
        }
        // SAFETY: null, or the words exist, by the contract of `new`.
        let Some(words) = (unsafe { self.words.as_ref() }) else { return false };
        let shift = page.trailing_zeros();
        let pages = |start: usize, length: usize| {
            Some((start.checked_shr(shift)?, start.checked_add(length - 1)?.checked_shr(shift)?))
        };
        let Some((first, last)) = pages(address, length) else { return false };
        self.borrows.ranges(words).any(|(start, length)| {
            let Some(borrowed) = pages(start as usize, length as usize) else { return false };
            borrowed.0 <= first && last <= borrowed.1
        })
    }
}

#[cfg(test)]
mod tests {
    use sdt_core::arg::Tuple;

    use super::*;

    fn borrows<T: Tuple<COUNT>, const COUNT: usize>(_: &T) -> Borrows {
        T::BORROWS
    }

    #[test]
    fn pages_of_borrowed_ranges_are_borrowed() {
        const PAGE: usize = 4096;
        let mut words = [0; ARGS];
        words[..4].copy_from_slice(&[0x1_0ff0, 0x20, 0x5_0008, 0x7_0000]);
        // SAFETY: `contains` reads none of the ranges.
        let arguments = unsafe { Arguments::new(&words, borrows(&("text", c"text", 7_u64))) };
        let contains = |address, length| arguments.contains(address, length, PAGE);
        assert!(contains(0x1_0ff0, 0x20) && contains(0x1_0000, 1));
        assert!(contains(0x1_1fff, 1) && !contains(0x1_1fff, 2));
        assert!(!contains(0x1_0000 - 1, 2) && !contains(0x1_2000, 1));
        assert!(contains(0x5_0fff, 1) && !contains(0x5_0fff, 2));
        assert!(!contains(0x7_0000, 1), "a number");
        assert!(!contains(usize::MAX, 2) && !arguments.contains(0x1_0ff0, 1, 0));
        assert!(!Arguments::NONE.contains(0x1_0ff0, 1, PAGE));
    }

    /// A range may have any address and length: the site may pass a false `&str`, which its own code could not use.
    #[test]
    fn a_range_above_all_addresses_is_not_borrowed() {
        let mut words = [0; ARGS];
        words[..2].copy_from_slice(&[u64::MAX - 4, 100]);
        // SAFETY: `contains` reads none of the range.
        let arguments = unsafe { Arguments::new(&words, borrows(&("text",))) };
        assert!(!arguments.contains(usize::MAX - 4, 2, 4096));
    }
}
