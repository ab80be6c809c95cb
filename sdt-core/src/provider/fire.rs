//! Hands a hit from an enabled site to the framework.

use core::ffi::c_void;

use crate::frames::Marked;
use crate::hit::Hit;
use crate::record::Probe;
use crate::route::attachment;

/// The number of frames between [`Framework::hit`](crate::ops::Framework::hit) and the function that fired: that of
/// [`fire`] and that of the thunk that called it.
///
/// [`Framework::probe_create`](crate::ops::Framework::probe_create) gets this number.
pub const AFRAMES: u32 = 2;

/// Hands a hit to the framework to which the image is attached.
///
/// `words` are the arguments, [`WORD_STRIDE`](crate::arch::WORD_STRIDE) words apart. `frame` is the frame of the thunk
/// that the site called. If the probe is no longer enabled, the framework ignores the hit: the thread left the site while
/// another one disabled the probe.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. Takes no lock, allocates nothing, and calls only the
/// framework.
///
/// # Safety
/// `probe` is a record of this image. `words` point to `count` readable words, and `count` is at most
/// [`CARRIED`](crate::hit::CARRIED). `frame` is that of a thunk further up the stack, which waits for this function, or
/// null.
// Not inlined: it must have its own frame, because `AFRAMES` counts it.
#[inline(never)]
pub unsafe extern "C" fn fire(
    probe: *const Probe,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    let Some(attachment) = attachment::current() else { return };
    // SAFETY: a record of this image, by the contract of this function; records are statics.
    let probe = unsafe { &*probe };
    let hit = Hit { words, count };
    // SAFETY: the thunk of `frame` waits for this function, by its contract, and the mark is dropped before it returns.
    let _marked = unsafe { Marked::new(frame, &hit) };
    // SAFETY: `count` words are readable, by the contract of this function.
    let args = unsafe { hit.args() };
    // SAFETY: only `enable` and `disable` of the ops table set the id, as `hit` demands. `hit` itself checks whether the
    // probe still exists. The words are those of arguments that the site borrows until this function returns; their types
    // are among those of which linking has made the borrows of the probe.
    unsafe { attachment.framework.hit(probe.enabled_id(), &args, probe.borrows()) };
}

pub use crate::thunk::fire_at;
