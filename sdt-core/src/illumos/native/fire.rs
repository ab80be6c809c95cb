//! The call from an enabled site to the probe site.

use core::ffi::c_void;

use crate::arch;
use crate::hit::Hit;
use crate::record::Probe;

/// Executes the probe site at `trampoline` with these words.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. If the probe is not enabled, or no longer,
/// the site consists of nops.
///
/// # Safety
/// `trampoline` is that of a site of this image, `words` are `count` readable words, `count` is at most
/// [`CARRIED`](crate::hit::CARRIED); `frame` is that of a thunk further up the stack.
pub unsafe extern "C" fn fire(
    trampoline: usize,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    // SAFETY: `count` words are readable, by the contract of this function.
    let args = unsafe { Hit { words, count }.args() };
    // SAFETY: the trampoline is that of a site of this image and `frame` that of a thunk, by the contract of this function.
    unsafe { arch::enter(trampoline, &args, frame) };
}

/// Fires for an evaluator.
///
/// # Safety
/// As [`fire`]; `frame` is the frame of the evaluator's thunk.
pub unsafe fn fire_at(_: *const Probe, words: *const u64, count: usize, frame: *const c_void) {
    // SAFETY: `frame` is that of an evaluator's thunk, by the contract of this function, so it has a trampoline; the rest is
    // the contract of `fire`.
    unsafe { fire(arch::trampoline_of(frame), words, count, frame) }
}
