//! The arguments of the hit that is being recorded, found up the stack.
//!
//! For frameworks whose `probe` function drops some: FreeBSD's `dtrace_probe` carries five.

use crate::arch;
use crate::hit::{Hit, MARK, MAX_ARGS};

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
