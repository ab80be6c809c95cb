//! The thunks that a cold block calls: functions that preserve every register. All architectures share their shape;
//! `piece!` in the architecture's file defines the instructions.
//!
//! A thunk sets up a frame, saves the registers that a C function may change, calls on an aligned stack, restores the
//! registers, and pops the bytes that the site has pushed when it returns. It keeps the frame chain: after the
//! framework's own frames, `stack()` finds this frame, and then the function that fired. The slots of a hit (mark,
//! words, count) are at [`HIT_SLOTS`](crate::arch::HIT_SLOTS) below the frame pointer.

use core::arch::naked_asm;
#[cfg(not(sdt_site = "call"))]
use core::ffi::c_void;

use crate::arch::{EVALUATE_BESIDES, FIRE_BESIDES, WORD_STRIDE, piece};
use crate::capture::{Captures, Evaluator, evaluate};
use crate::fire::fire;

/// The size of a word on the stack in bytes.
const WORD: usize = 8 * WORD_STRIDE;

/// Fires a probe with `N` arguments. They are on the stack, with the other words that `@call` of `__sdt_arch!` pushes.
///
/// Preserves every general register except those that `__sdt_asm!` clobbers. Changes the flags.
///
/// # Safety
/// Only the assembly of `@call` may call it: it is not a C function.
#[unsafe(naked)]
pub unsafe extern "C" fn thunk<const N: usize>() {
    naked_asm!(
        piece!(enter),
        piece!(fire),
        piece!(leave),
        count = const N,
        function = sym fire,
        taken = const WORD * N + FIRE_BESIDES,
    )
}

/// Runs the evaluator of `F` over `C`. On the stack are `N` pairs of words, those of the captures and, if it has a
/// size, the closure, with the other words that `@evaluate` of `__sdt_arch!` pushes.
///
/// Preserves every general register except those that `__sdt_asm!` clobbers. Changes the flags.
///
/// # Safety
/// Only the assembly of `@evaluate` may call it: it is not a C function.
#[unsafe(naked)]
pub unsafe extern "C" fn evaluate_thunk<C: Captures, F: Evaluator<C>, const N: usize>() {
    naked_asm!(
        piece!(enter),
        piece!(evaluate),
        piece!(leave),
        function = sym evaluate::<C, F>,
        taken = const 16 * N + EVALUATE_BESIDES,
    )
}

/// Calls [`fire`] as if from the thunk whose frame is `frame`: the frame chain skips the frames of the evaluator and
/// its callees, so that `stack()` sees the same frames with and without an evaluator.
///
/// # Safety
/// That of [`fire`]; `frame` is the frame pointer that an [`evaluate_thunk`] further up the stack has passed on.
#[cfg(sdt_route = "provider")]
#[unsafe(naked)]
pub unsafe extern "C" fn fire_at(
    probe: *const crate::record::Probe,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    naked_asm!(piece!(fire_at), function = sym fire)
}

/// Calls `function(id, args...)` as if from the thunk whose frame is `frame`: the frame chain skips the frames in
/// between. The kernel treats its caller as the one artificial frame of C's macro, and the next frame is that of the
/// function that fired.
///
/// # Safety
/// `frame` is the frame pointer of a thunk further up the stack; `function` takes these arguments.
#[cfg(all(sdt_route = "native", not(sdt_site = "call")))]
#[unsafe(naked)]
pub unsafe extern "C" fn call_from(
    frame: *const c_void,
    function: *const (),
    id: u32,
    args: *const [u64; crate::ops::ARGS],
) {
    naked_asm!(piece!(call_from))
}
