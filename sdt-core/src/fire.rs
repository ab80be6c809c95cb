//! From an enabled site to the framework.

use crate::arch;
use crate::attach;
use crate::record::Probe;

/// Artificial frames between the framework's `probe` function and the function that fired: [`fire`]
/// and the thunk that called it. What [`Framework::probe_create`](crate::ops::Framework::probe_create)
/// is told.
pub const AFRAMES: u32 = 2;

/// Most arguments a probe can carry.
pub const MAX_ARGS: usize = 6;

/// Hands a hit to the framework the image is attached to. `words` are [`WORD_STRIDE`](arch::WORD_STRIDE)
/// apart.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. Takes no lock, allocates
/// nothing, calls nothing but the framework. A hit on a probe the framework does not know (any
/// more) is none: this can only be a CPU that was on its way here while the probe was disabled.
///
/// # Safety
/// `probe` is a record of this image, `words` are `count` readable words, `count` is at most
/// [`MAX_ARGS`].
// Not inlined into anything: it must have a frame of its own, or `AFRAMES` would be wrong.
#[inline(never)]
pub unsafe extern "C" fn fire(probe: *const Probe, words: *const u64, count: usize) {
    // SAFETY: by contract a record of this image, a static.
    let probe = unsafe { &*probe };
    // The id is loaded once: a second load might find the probe gone.
    let (Some(id), Some(attachment)) = (probe.id(), attach::current()) else { return };
    // SAFETY: by contract.
    attachment.framework.probe(id, &unsafe { Hit { words, count }.args() });
}

/// The arguments of a hit, as they lie on the stack.
struct Hit {
    words: *const u64,
    count: usize,
}

/// What a thunk leaves in its frame, exclusive-or the frame pointer, so that the frame can be told from all
/// others. Below it are the words' address and their count.
pub(crate) const MARK: u64 = 0x5d74_7468_756e_6b21;

impl Hit {
    /// All arguments; those the probe does not have are 0.
    ///
    /// # Safety
    /// `count` words are readable.
    unsafe fn args(&self) -> [u64; MAX_ARGS] {
        let mut args = [0; MAX_ARGS];
        let mut i = 0;
        while i < self.count && i < MAX_ARGS {
            // Volatile, because the compiler otherwise calls memcpy, which can be traced itself.
            // SAFETY: by contract `count` words are readable.
            args[i] = unsafe { self.words.add(i * arch::WORD_STRIDE).read_volatile() };
            i += 1;
        }
        args
    }
}

/// The arguments of the hit that is being recorded, found up the stack; zeros if there is no hit.
///
/// For a `getargval` op: a framework whose `probe` drops arguments can ask for them again. Probe context.
///
/// # Safety
/// Called, however deeply, by a framework's `probe`; everything in between is compiled with frame pointers.
#[inline(always)]
pub unsafe fn args_of_hit() -> [u64; MAX_ARGS] {
    /// No framework has more frames of its own than this.
    const MAX_FRAMES: usize = 64;
    let mut frame = arch::frame_pointer().addr();
    for _ in 0..MAX_FRAMES {
        let slot = |n: isize| {
            let at = frame.wrapping_add_signed(n);
            // SAFETY: on this stack: frames up to the thunk's are in the chain, by contract.
            unsafe { core::ptr::with_exposed_provenance::<usize>(at).read_volatile() }
        };
        if slot(arch::HIT_SLOTS) as u64 == MARK ^ frame as u64 {
            let words = core::ptr::with_exposed_provenance(slot(arch::HIT_SLOTS - 8));
            let hit = Hit { words, count: slot(arch::HIT_SLOTS - 16) };
            // SAFETY: what the thunk was called with.
            return unsafe { hit.args() };
        }
        let next = slot(arch::NEXT_FRAME);
        if next <= frame {
            break;
        }
        frame = next;
    }
    [0; MAX_ARGS]
}
