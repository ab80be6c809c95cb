//! Memory that the site of the current hit borrows: the text and slices that it passes, and the values that it refers to.
//!
//! The types of a probe's arguments prove this ([`Borrows`]). Such memory is mapped and readable until the hit is recorded, and so
//! is the rest of its pages.

use std::cell::Cell;

use sdt_core::arg::Borrows;
use sdt_core::ops::ARGS;

/// The arguments of a hit.
#[derive(Clone, Copy)]
struct Arguments {
    words: *const [u64; ARGS],
    borrows: Borrows,
}

impl Arguments {
    const NONE: Self = Self { words: std::ptr::null(), borrows: Borrows::NOTHING };
}

thread_local! {
    /// The arguments of the innermost hit of this thread that borrows memory. Neither allocated nor dropped, so signal handlers
    /// can use it.
    static CURRENT: Cell<Arguments> = const { Cell::new(Arguments::NONE) };
}

/// Notes the arguments of a hit until it is dropped; then those of the hit that it has interrupted, if any, which still borrows
/// its memory.
#[derive(Debug)]
pub(crate) struct Note<'a> {
    previous: Option<(*const [u64; ARGS], Borrows)>,
    words: std::marker::PhantomData<&'a [u64; ARGS]>,
}

impl<'a> Note<'a> {
    /// Notes the arguments of a hit. Probe context.
    ///
    /// # Safety
    /// The [ranges](Borrows::ranges) of `borrows` in `words` are mapped and readable until the result is dropped, and it is dropped.
    #[inline(always)]
    pub(crate) unsafe fn new(words: &'a [u64; ARGS], borrows: Borrows) -> Self {
        let previous = (!borrows.is_nothing()).then(|| {
            let Arguments { words, borrows } = CURRENT.replace(Arguments { words, borrows });
            (words, borrows)
        });
        Self { previous, words: std::marker::PhantomData }
    }
}

impl Drop for Note<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((words, borrows)) = self.previous {
            CURRENT.set(Arguments { words, borrows });
        }
    }
}

/// Returns whether all pages of size `page` with these bytes belong to one range of borrowed memory. Then all of them can be read until the
/// caller returns. `length` is not 0. Probe context.
pub(crate) fn contains(address: usize, length: usize, page: usize) -> bool {
    let Arguments { words, borrows } = CURRENT.get();
    // SAFETY: null, or noted by a hit of this thread that is not over, because the note is dropped before.
    let Some(words) = (unsafe { words.as_ref() }) else { return false };
    let pages = |start: usize, length: usize| {
        Some((start.checked_div(page)?, start.checked_add(length - 1)?.checked_div(page)?))
    };
    let Some((first, last)) = pages(address, length) else { return false };
    borrows.ranges(words).any(|(start, length)| {
        let Some(borrowed) = pages(start as usize, length as usize) else { return false };
        borrowed.0 <= first && last <= borrowed.1
    })
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
        let borrows = borrows(&("text", c"text", 7_u64));
        assert!(!contains(0x1_0ff0, 1, PAGE));
        // SAFETY: `contains` reads none of it.
        let note = unsafe { Note::new(&words, borrows) };
        assert!(contains(0x1_0ff0, 0x20, PAGE) && contains(0x1_0000, 1, PAGE));
        assert!(contains(0x1_1fff, 1, PAGE) && !contains(0x1_1fff, 2, PAGE));
        assert!(!contains(0x1_0000 - 1, 2, PAGE) && !contains(0x1_2000, 1, PAGE));
        assert!(contains(0x5_0fff, 1, PAGE) && !contains(0x5_0fff, 2, PAGE));
        assert!(!contains(0x7_0000, 1, PAGE), "a number");
        assert!(!contains(usize::MAX, 2, PAGE) && !contains(0x1_0ff0, 1, 0));
        {
            // An inner hit that borrows nothing leaves the outer one's.
            // SAFETY: `contains` reads none of it.
            let _inner = unsafe { Note::new(&[0; ARGS], Borrows::NOTHING) };
            assert!(contains(0x1_0ff0, 1, PAGE));
        }
        let other = [0x9_0000, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        {
            // SAFETY: `contains` reads none of it.
            let _inner = unsafe { Note::new(&other, borrows) };
            assert!(contains(0x9_0000, 1, PAGE) && !contains(0x1_0ff0, 1, PAGE));
        }
        assert!(contains(0x1_0ff0, 1, PAGE) && !contains(0x9_0000, 1, PAGE));
        drop(note);
        assert!(!contains(0x1_0ff0, 1, PAGE));
    }

    /// A range may have any address and length: the site may pass a false `&str`, which its own code could not use.
    #[test]
    fn a_range_above_all_addresses_is_not_borrowed() {
        let mut words = [0; ARGS];
        words[..2].copy_from_slice(&[u64::MAX - 4, 100]);
        // SAFETY: `contains` reads none of it.
        let _note = unsafe { Note::new(&words, borrows(&("text",))) };
        assert!(!contains(usize::MAX - 4, 2, 4096));
    }
}
