//! Architectures without their own file. Their sites are never patched (see [`gate`](super)) and fire by an ordinary
//! call, so a probe may use registers on the hot path.

use core::ffi::c_void;

use dtrace_abi::site::Encoding;

/// The encoding of an architecture without patching.
pub const ENCODING: Encoding = Encoding::NONE;

/// Distance of two arguments on the stack, in words.
pub const WORD_STRIDE: usize = 1;

/// The length of a breakpoint: 0, as there are none.
pub const BREAKPOINT_LEN: usize = 0;

/// The calls of the thunks' stand-ins. Words and pairs of words are in reverse order, as on architectures that push
/// them.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_arch {
    (@call $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the macro passes the record of the probe, and the words of its call.
        unsafe { $crate::__private::thunk::call(&$probe, [$($word),*]) }
    }};
    (@evaluate $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the macro passes to each thunk the words for which the thunk was made.
        unsafe { $thunk([$([$low, $high]),*]) }
    }};
}

/// The offset of a saved frame pointer: unused, as frames cannot be walked.
pub const NEXT_FRAME: isize = 0;

/// The offset of the slots of a hit: unused, as there are no thunks.
pub const HIT_SLOTS: isize = 0;

/// Returns 0: frames cannot be walked.
pub fn frame_pointer() -> *const c_void {
    core::ptr::null()
}
