//! From an enabled site to the framework.

use crate::attach;
use crate::hit::Hit;
use crate::patch;
use crate::record::Probe;

/// Artificial frames between the framework's `probe` function and the function that fired: [`fire`]
/// and the thunk that called it. What [`Framework::probe_create`](crate::ops::Framework::probe_create)
/// is told.
pub const AFRAMES: u32 = 2;

/// Hands a hit to the framework the image is attached to. `words` are [`WORD_STRIDE`](crate::arch::WORD_STRIDE)
/// apart.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. Takes no lock, allocates
/// nothing, calls nothing but the framework. A hit on a probe that is not enabled (any more) is none: this
/// can only be a thread that was on its way here while the probe was disabled.
///
/// # Safety
/// `probe` is a record of this image, `words` are `count` readable words, `count` is at most
/// [`MAX_ARGS`](crate::hit::MAX_ARGS).
// Not inlined into anything: it must have a frame of its own, or `AFRAMES` would be wrong.
#[inline(never)]
pub unsafe extern "C" fn fire(probe: *const Probe, words: *const u64, count: usize) {
    let Some(attachment) = attach::current() else { return };
    let framework = attachment.framework;
    let begun = framework.begin();
    // SAFETY: by contract a record of this image, a static.
    let probe = unsafe { &*probe };
    // Only now: a thread may have been on its way here for long, and the probe be gone. The id is loaded
    // once: a second load might find it gone.
    if let Some(id) = probe.id().filter(|_| patch::is_enabled(probe)) {
        // SAFETY: by contract.
        framework.probe(id, &unsafe { Hit { words, count }.args() });
    }
    framework.end(begun);
}

pub use crate::arch::fire_at;
