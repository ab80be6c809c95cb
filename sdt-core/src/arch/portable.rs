//! Architectures that have no file of their own here. Their sites are never patched (see [`gate`](super)),
//! and they fire by an ordinary call, so a probe may cost the hot path registers.

use core::ffi::c_void;

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
        unsafe { $crate::__private::thunk::call(&$probe, [$($word),*]) }
    }};
    (@evaluate $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunk with the words it was made for.
        unsafe { $thunk([$([$low, $high]),*]) }
    }};
}

/// There are no frames to be walked: nothing is there.
pub const NEXT_FRAME: isize = 0;

/// There are no thunks.
pub const HIT_SLOTS: isize = 0;

/// None that could be walked.
pub fn frame_pointer() -> *const c_void {
    core::ptr::null()
}
