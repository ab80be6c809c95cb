//! The thunks of architectures without assembly: ordinary functions.

use core::ffi::c_void;

use crate::capture::{Captures, Evaluator, Words, evaluate};
use crate::fire::fire;
use crate::record::Probe;

/// Fires a probe with words in reverse order.
///
/// # Safety
/// Like [`fire`], with this number of words.
#[inline(never)]
pub unsafe fn call<const N: usize>(probe: &'static Probe, mut words: [u64; N]) {
    words.reverse();
    // SAFETY: `probe` is a record of this image, by the contract of this function; `words` is an array of `N`.
    unsafe { fire(probe, words.as_ptr(), N, core::ptr::null()) }
}

/// Runs the evaluator of `F` over `C` with pairs of words in reverse order.
///
/// # Safety
/// The words are those of the captures and, if it has a size, the closure.
#[inline(never)]
pub unsafe fn evaluate_thunk<C: Captures, F: Evaluator<C>, const N: usize>(mut words: [Words; N]) {
    words.reverse();
    // SAFETY: the words of the captures and the closure, by the contract of this function; without thunks the frame is null.
    unsafe { evaluate::<C, F>(words.as_ptr(), core::ptr::null()) }
}

/// Calls [`fire`]. There is no frame to skip.
///
/// # Safety
/// As [`fire`].
pub unsafe fn fire_at(probe: *const Probe, words: *const u64, count: usize, frame: *const c_void) {
    // SAFETY: the contract of this function is that of `fire`.
    unsafe { fire(probe, words, count, frame) }
}
