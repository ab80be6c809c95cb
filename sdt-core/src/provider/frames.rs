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
