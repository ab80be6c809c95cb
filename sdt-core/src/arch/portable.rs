//! Architectures that have no file of their own here. Their sites are never patched (see [`gate`](super)),
//! and they fire by an ordinary call, so a probe may cost the hot path registers.

use core::ffi::c_void;

use crate::capture::{Captures, Evaluator, Words, evaluate};
use crate::fire::fire;
use crate::record::Probe;
use dtrace_abi::site::Encoding;

/// Nothing is patched.
pub const ENCODING: Encoding = Encoding::NONE;

/// Words apart that arguments lie on the stack.
pub const WORD_STRIDE: usize = 1;

/// There are no breakpoints.
pub const BREAKPOINT_LEN: usize = 0;

/// The calls of the thunks' stand-ins. Words, and pairs of words, come last first, as they do to architectures that push
/// them.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_arch {
    (@call $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the probe's own record and the words it is called with.
        unsafe { $crate::__private::arch::call(&$probe, [$($word),*]) }
    }};
    (@evaluate $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunk with the words it was made for.
        unsafe { $thunk([$([$low, $high]),*]) }
    }};
}

/// Fires a probe with words in reverse order.
///
/// # Safety
/// As [`fire`], with that many words.
#[inline(never)]
pub unsafe fn call<const N: usize>(probe: &'static Probe, mut words: [u64; N]) {
    words.reverse();
    // SAFETY: a record of this image, by the contract of this function; `words` is an array of `N`.
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

/// Calls [`fire`]. There is no frame to account for.
///
/// # Safety
/// As [`fire`].
pub unsafe fn fire_at(probe: *const Probe, words: *const u64, count: usize, frame: *const c_void) {
    // SAFETY: the contract of this function is that of `fire`.
    unsafe { fire(probe, words, count, frame) }
}

/// There are no frames to be walked: nothing is there.
pub const NEXT_FRAME: isize = 0;

/// There are no thunks.
pub const HIT_SLOTS: isize = 0;

/// None that could be walked.
pub fn frame_pointer() -> *const c_void {
    core::ptr::null()
}
