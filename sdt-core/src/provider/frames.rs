//! The arguments of the hit that is being recorded, found up the stack.
//!
//! For frameworks whose `probe` function drops some: FreeBSD's `dtrace_probe` carries five. While a hit is recorded,
//! the frame of its thunk has a mark by which it can be told from all others, and below that where the words are and
//! how many: no state per CPU or thread, so nothing to go wrong when an interrupt fires a probe in between.

use core::ffi::c_void;

use crate::arch;
use crate::hit::{ARGS, Hit};

/// The mark is this exclusive-or the frame pointer.
const MARK: usize = 0x5d74_7468_756e_6b21_u64 as usize;

/// The slots of a thunk's frame: mark, address of the words, their count.
const SLOTS: [isize; 3] = [arch::HIT_SLOTS, arch::HIT_SLOTS - 8, arch::HIT_SLOTS - 16];

/// A frame, or what may be one.
#[derive(Clone, Copy, Debug)]
struct Frame(usize);

impl Frame {
    fn word(self, offset: isize) -> *mut usize {
        core::ptr::with_exposed_provenance_mut(self.0.wrapping_add_signed(offset))
    }

    /// # Safety
    /// The word is on this stack.
    unsafe fn read(self, offset: isize) -> usize {
        // SAFETY: by contract.
        unsafe { self.word(offset).read_volatile() }
    }

    /// # Safety
    /// The word is on this stack, and nobody else's.
    unsafe fn write(self, offset: isize, value: usize) {
        // SAFETY: by contract.
        unsafe { self.word(offset).write_volatile(value) };
    }

    fn mark(self) -> usize {
        MARK ^ self.0
    }
}

/// A hit that [`args_of_hit`] finds, until this is dropped. Then the mark is erased: the frame's place is soon
/// another's, which need not overwrite it.
#[derive(Debug)]
pub(crate) struct Recorded(Option<Frame>);

impl Recorded {
    /// Marks the frame of the thunk through which a hit came. Probe context.
    ///
    /// # Safety
    /// `frame` is the frame pointer of a thunk further up the stack, or null where there are none.
    #[inline(always)]
    pub(crate) unsafe fn new(frame: *const c_void, hit: &Hit) -> Self {
        if frame.is_null() {
            return Self(None);
        }
        let frame = Frame(frame.expose_provenance());
        let [mark, words, count] = SLOTS;
        // SAFETY: the slots are in the thunk's frame, for this. The mark comes last: it vouches for the others.
        unsafe {
            frame.write(words, hit.words.expose_provenance());
            frame.write(count, hit.count);
            frame.write(mark, frame.mark());
        }
        Self(Some(frame))
    }
}

impl Drop for Recorded {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(frame) = self.0 {
            // SAFETY: the thunk waits for whoever holds this.
            unsafe { frame.write(SLOTS[0], 0) };
        }
    }
}

/// The frame of a thunk whose hit is being recorded, if this word at this address is its mark: for who looks for it where
/// frames need not be in a chain.
pub fn frame_of_mark(address: usize, word: usize) -> Option<usize> {
    let frame = Frame(address.wrapping_add_signed(-SLOTS[0]));
    (word == frame.mark()).then_some(frame.0)
}

/// The arguments of the hit that is being recorded, found up the stack; zeros if there is no hit, or the
/// architecture has no thunks.
///
/// For a `getargval` op: a framework whose `probe` drops arguments can ask for them again. Probe context.
///
/// # Safety
/// Called, however deeply, by a framework's `probe`; everything in between is compiled with frame pointers.
#[inline(always)]
pub unsafe fn args_of_hit() -> [u64; ARGS] {
    /// No framework has more frames of its own than this.
    const MAX_FRAMES: usize = 64;
    let [mark, words, count] = SLOTS;
    let mut frame = Frame(arch::frame_pointer().addr());
    for _ in 0..MAX_FRAMES {
        if frame.0 == 0 {
            break;
        }
        // SAFETY: on this stack: frames up to the thunk's are in the chain, by contract.
        let slot = |offset| unsafe { frame.read(offset) };
        if slot(mark) == frame.mark() {
            let words = core::ptr::with_exposed_provenance(slot(words));
            let hit = Hit { words, count: slot(count) };
            // SAFETY: what the thunk was called with.
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
