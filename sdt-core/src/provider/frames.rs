//! Stack frames of a hit: for hosts that walk the stack, and for the arguments of the hit that is being recorded.
//!
//! A site calls a *thunk*, which calls the framework. While a hit is being recorded, the frame of its thunk contains a
//! mark that no other frame has, the address of the argument words, and their count.
//!
//! The mark serves two purposes. A framework whose `probe` function drops arguments (FreeBSD's `dtrace_probe` carries
//! five) finds them up the stack ([`args_of_hit`]). A host that walks the stack of a hit finds the frame at which the
//! traced code begins ([`thunk_frame`]). There is no state per CPU or per thread, so an interrupt that fires a probe
//! cannot disturb it.

use core::ffi::c_void;

use crate::arch;
use crate::hit::Hit;
use crate::ops::ARGS;

pub use crate::arch::{NEXT_FRAME, frame_pointer};

/// The mark is this number, exclusive-or the frame pointer.
const MARK: usize = 0x5d74_7468_756e_6b21_u64 as usize;

/// The offsets from a thunk's frame pointer to the mark, the address of the words, and their count.
const SLOTS: [isize; 3] = [arch::HIT_SLOTS, arch::HIT_SLOTS - 8, arch::HIT_SLOTS - 16];

/// The address of a frame, or an address that may be one.
#[derive(Clone, Copy, Debug)]
struct Frame(usize);

impl Frame {
    /// Returns the address of the word at an offset from the frame pointer.
    fn word(self, offset: isize) -> *mut usize {
        core::ptr::with_exposed_provenance_mut(self.0.wrapping_add_signed(offset))
    }

    /// Loads a word of the frame.
    ///
    /// # Safety
    /// The word lies on the stack of this thread.
    unsafe fn read(self, offset: isize) -> usize {
        // SAFETY: the contract of this function: the word is mapped and readable.
        unsafe { self.word(offset).read_volatile() }
    }

    /// Stores a word of the frame.
    ///
    /// # Safety
    /// The word lies on the stack of this thread, and no other code uses it.
    unsafe fn write(self, offset: isize, value: usize) {
        // SAFETY: the contract of this function: the word is mapped and writable, and no reference to it exists.
        unsafe { self.word(offset).write_volatile(value) };
    }

    /// Returns the mark that identifies this frame.
    fn mark(self) -> usize {
        MARK ^ self.0
    }
}

/// Marks the frame of a thunk until it is dropped.
///
/// Dropping erases the mark, because the next frame at this address need not overwrite it.
#[derive(Debug)]
pub(crate) struct Marked(Option<Frame>);

impl Marked {
    /// Marks the frame of the thunk that the site called. Probe context.
    ///
    /// # Safety
    /// `frame` is the frame pointer of a thunk further up the stack of this thread, or null on an architecture without
    /// thunks. The thunk does not return while this value exists.
    #[inline(always)]
    pub(crate) unsafe fn new(frame: *const c_void, hit: &Hit) -> Self {
        if frame.is_null() {
            return Self(None);
        }
        let frame = Frame(frame.expose_provenance());
        let [mark, words, count] = SLOTS;
        // SAFETY: a thunk reserves these three words of its frame for the mark, and they are writable as long as it has
        // not returned. The mark is stored last, because its presence means that the other words are valid.
        unsafe {
            frame.write(words, hit.words.expose_provenance());
            frame.write(count, hit.count);
            frame.write(mark, frame.mark());
        }
        Self(Some(frame))
    }
}

impl Drop for Marked {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(frame) = self.0 {
            // SAFETY: the thunk has not returned, by the contract of `new`, so its frame still exists.
            unsafe { frame.write(SLOTS[0], 0) };
        }
    }
}

/// Returns the frame pointer of the thunk whose mark is `word` at `address`, or `None` if the word is no mark.
///
/// For a host that searches the stack of a hit word by word because its frames need not be chained.
pub fn thunk_frame(address: usize, word: usize) -> Option<usize> {
    let frame = Frame(address.wrapping_add_signed(-SLOTS[0]));
    (word == frame.mark()).then_some(frame.0)
}

/// Returns the arguments of the hit that is being recorded, found up the stack. They are zeros if no hit is being recorded
/// or the architecture has no thunks.
///
/// For a `getargval` op, by which a framework whose `probe` drops arguments asks for them. Probe context.
///
/// # Safety
/// The caller was called by a framework's `probe`, directly or through other functions, all of which were compiled with
/// frame pointers.
#[inline(always)]
pub unsafe fn args_of_hit() -> [u64; ARGS] {
    /// More frames than any framework has between `probe` and `getargval`.
    const MAX_FRAMES: usize = 64;
    let [mark, words, count] = SLOTS;
    let mut frame = Frame(arch::frame_pointer().addr());
    for _ in 0..MAX_FRAMES {
        if frame.0 == 0 {
            break;
        }
        // SAFETY: by contract the chain of frames leads up this stack to the thunk's frame, where the search ends.
        let slot = |offset| unsafe { frame.read(offset) };
        if slot(mark) == frame.mark() {
            let words = core::ptr::with_exposed_provenance(slot(words));
            let hit = Hit { words, count: slot(count) };
            // SAFETY: because the mark is valid, the two words next to it are those that the site passed to the thunk.
            return unsafe { hit.args() };
        }
        let next = Frame(slot(arch::NEXT_FRAME));
        if next.0 <= frame.0 {
            break;
        }
        frame = next;
    }
    [0; ARGS]
}

/// Writes the return addresses of the hit that is being recorded, beginning with the function that fired. Returns their number: 0
/// if no site made the hit, as for a timer.
///
/// `load` returns an aligned word of memory, or `None` if the address is not memory that can be read; `is_text` returns whether
/// an address is text. The walk ends at the first frame that is not readable, is not further up the stack, or does not return to
/// text. Each frame costs two loads.
///
/// The kernel and this crate must be compiled with frame pointers (`-C force-frame-pointers=yes`). A function without a frame
/// pointer is missing in the result. If it uses the register for other data, its callers are missing, too. Probe context.
#[inline(always)]
pub fn stack_of_hit(
    load: impl FnMut(usize) -> Option<usize>,
    is_text: impl FnMut(usize) -> bool,
    frames: &mut [u64],
) -> usize {
    walk(arch::frame_pointer().addr(), load, is_text, frames)
}

/// Walks the stack like [`stack_of_hit`], beginning at a frame.
fn walk(
    start: usize,
    mut load: impl FnMut(usize) -> Option<usize>,
    mut is_text: impl FnMut(usize) -> bool,
    frames: &mut [u64],
) -> usize {
    /// The largest number of frames of the framework between this function and the thunk.
    const OWN: usize = 64;
    let above = |frame: usize, next: usize| next > frame && next.is_multiple_of(size_of::<usize>());
    let mut frame = Frame(start);
    let mut own = 0;
    loop {
        let mark = load(frame.0.wrapping_add_signed(SLOTS[0]));
        if frame.0 != 0 && mark == Some(frame.mark()) {
            break;
        }
        let Some(next) = load(frame.0.wrapping_add_signed(arch::NEXT_FRAME)) else { return 0 };
        own += 1;
        if own == OWN || !above(frame.0, next) {
            return 0;
        }
        frame = Frame(next);
    }
    let mut count = 0;
    while let Some(place) = frames.get_mut(count) {
        let words = frame.0.wrapping_add_signed(arch::NEXT_FRAME);
        let Some(returns) = load(words.wrapping_add(size_of::<usize>())) else { break };
        if !is_text(returns) {
            break;
        }
        *place = returns as u64;
        count += 1;
        match load(words) {
            Some(next) if above(frame.0, next) => frame = Frame(next),
            _ => break,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: usize = size_of::<usize>();
    /// The address of the first word of the stack of [`Stack`].
    const BASE: usize = 0x1000;
    const TEXT: core::ops::Range<usize> = 0x10_0000..0x20_0000;

    /// A stack with frames.
    struct Stack([usize; 64]);

    impl Stack {
        fn word(&mut self, address: usize) -> &mut usize {
            &mut self.0[(address - BASE) / WORD]
        }

        /// Makes a frame at an address, with the next frame and the return address.
        fn frame(&mut self, at: usize, next: usize, returns: usize) {
            let words = at.wrapping_add_signed(arch::NEXT_FRAME);
            *self.word(words) = next;
            *self.word(words + WORD) = returns;
        }

        fn mark(&mut self, at: usize) {
            *self.word(at.wrapping_add_signed(SLOTS[0])) = Frame(at).mark();
        }

        fn walk<const N: usize>(&self, start: usize) -> ([u64; N], usize) {
            let mut frames = [0; N];
            let load = |address: usize| self.0.get(address.checked_sub(BASE)? / WORD).copied();
            let count = walk(start, load, |address| TEXT.contains(&address), &mut frames);
            (frames, count)
        }
    }

    /// Two frames of the framework, the thunk, and three of the traced code.
    fn stack() -> Stack {
        let mut stack = Stack([0; 64]);
        let at = |index: usize| BASE + index * 8 * WORD;
        stack.frame(at(1), at(2), TEXT.start + 1);
        stack.frame(at(2), at(3), TEXT.start + 2);
        stack.frame(at(3), at(4), TEXT.start + 3);
        stack.mark(at(3));
        stack.frame(at(4), at(5), TEXT.start + 4);
        stack.frame(at(5), 0, TEXT.start + 5);
        stack
    }

    const START: usize = BASE + 8 * WORD;

    #[test]
    fn the_stack_begins_with_the_function_that_fired() {
        let expected = [3, 4, 5].map(|at| (TEXT.start + at) as u64);
        assert_eq!(stack().walk::<3>(START), (expected, 3));
        let (frames, count) = stack().walk::<8>(START);
        assert_eq!((&frames[..count], count), (&expected[..], 3));
        assert_eq!(stack().walk::<1>(START), ([expected[0]], 1));
        assert_eq!(stack().walk::<0>(START), ([], 0));
    }

    #[test]
    fn a_chain_that_leads_astray_ends() {
        let at = |index: usize| BASE + index * 8 * WORD;
        for next in [0, at(3), at(4), at(4) + 1, usize::MAX & !(WORD - 1)] {
            let mut stack = stack();
            stack.frame(at(4), next, TEXT.start + 4);
            let (_, count) = stack.walk::<8>(START);
            assert_eq!(count, 2, "{next:#x}");
        }
        let mut stack = stack();
        stack.frame(at(4), at(5), TEXT.end);
        assert_eq!(stack.walk::<8>(START).1, 1);
    }

    #[test]
    fn a_hit_that_no_site_made_has_no_stack() {
        let at = |index: usize| BASE + index * 8 * WORD;
        let mut unmarked = stack();
        *unmarked.word(at(3).wrapping_add_signed(SLOTS[0])) = 0;
        assert_eq!(unmarked.walk::<8>(START).1, 0);
        assert_eq!(stack().walk::<8>(0).1, 0);
        assert_eq!(stack().walk::<8>(usize::MAX).1, 0);
        let mut round = stack();
        round.frame(at(2), at(1), TEXT.start);
        assert_eq!(round.walk::<8>(START).1, 0);
    }
}
