//! From an enabled site to the framework.

use core::ffi::c_void;

use crate::attach;

use crate::hit::Hit;
use crate::record::Probe;
use crate::route::frames::Recorded;

/// Artificial frames between [`Framework::hit`](crate::ops::Framework::hit) and the function that fired:
/// [`fire`] and the thunk that called it. What
/// [`Framework::probe_create`](crate::ops::Framework::probe_create) is told.
pub const AFRAMES: u32 = 2;

/// Hands a hit to the framework the image is attached to. `words` are [`WORD_STRIDE`](crate::arch::WORD_STRIDE)
/// apart. `frame` is the frame of the thunk that the site called.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. Takes no lock, allocates
/// nothing, calls nothing but the framework. A hit on a probe that is not enabled (any more) is nobody's: this
/// can only be a thread that was on its way here while the probe was disabled.
///
/// # Safety
/// `probe` is a record of this image, `words` are `count` readable words, `count` is at most
/// [`MAX_ARGS`](crate::hit::MAX_ARGS); `frame` is that of a thunk further up the stack, or null.
// Not inlined into anything: it must have a frame of its own, or `AFRAMES` would be wrong.
#[inline(never)]
pub unsafe extern "C" fn fire(
    probe: *const Probe,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    let Some(attachment) = attach::current() else { return };
    // SAFETY: by contract a record of this image, a static.
    let probe = unsafe { &*probe };
    let hit = Hit { words, count };
    // SAFETY: by contract.
    let _recorded = unsafe { Recorded::new(frame, &hit) };
    // SAFETY: by contract.
    let args = unsafe { hit.args() };
    // A thread may have been on its way here for long, and the probe be gone: `hit` looks.
    // SAFETY: `enable` and `disable` of the ops table, and nobody else, set the id.
    unsafe { attachment.framework.hit(probe.enabled_id(), &args) };
}

pub use crate::arch::fire_at;
