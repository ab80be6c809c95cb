//! Evaluators: how a cold block runs them, and the frame in which they fire.

use core::ffi::c_void;

use super::frame::Frame;
use super::handed::{address, bits, fits_into};
use super::{Capture, Captures, Words};
use crate::arch::WORD_STRIDE;
use crate::ops::ARGS;

/// The place in the cold block at which an evaluator fires: the thunk needs none.
#[cfg(not(sdt_site = "call"))]
pub type Trampoline = ();

/// The place in the cold block at which an evaluator fires: the address of the probe site.
#[cfg(sdt_site = "call")]
#[derive(Debug)]
pub struct Trampoline(pub(crate) usize);

#[cfg(sdt_site = "call")]
impl Trampoline {
    /// Creates the trampoline at `address`.
    ///
    /// # Safety
    /// `__sdt_site!(@trampoline)` has emitted a probe site at `address`, and a jump back behind it.
    #[inline(always)]
    pub const unsafe fn new(address: usize) -> Self {
        Self(address)
    }
}

/// The result of an evaluator.
///
/// A `return` or a `?` in the expansion of a macro would return from the evaluator, and not from the function in which
/// the macro is called. User code cannot create this type, so the compiler rejects such a `return`, with this name in
/// the message.
#[derive(Debug)]
pub struct AMacroInAnArgumentMustNotReturn(pub(super) ());

/// An evaluator. The macro is in this crate so that the compiler's message can quote the name of the result.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_evaluator {
    (|$accesses:pat_param, $frame:ident| $body:tt) => {
        |$accesses, $frame: $crate::__private::capture::Frame| -> $crate::__private::capture::AMacroInAnArgumentMustNotReturn $body
    };
}

impl Frame {
    /// Fires `probe` from this frame, with the first `count` words.
    ///
    /// Probe context.
    ///
    /// # Safety
    /// `probe` is a record of this image. There are at most [`ARGS`] `words`, and `count` is at most their number.
    #[inline(always)]
    pub unsafe fn fire(
        &self,
        probe: &'static crate::record::Probe,
        words: &[u64],
        count: usize,
    ) -> AMacroInAnArgumentMustNotReturn {
        // The words are `WORD_STRIDE` words apart, as on the stack of a site.
        let mut spread = [0; ARGS * WORD_STRIDE];
        for (place, word) in spread.iter_mut().step_by(WORD_STRIDE).zip(words) {
            *place = *word;
        }
        // SAFETY: `probe` and `count` by the contract of this function. `evaluate` got the frame from the thunk, which waits
        // for the evaluator.
        unsafe { crate::fire::fire_at(probe, spread.as_ptr(), count, self.0) }
        AMacroInAnArgumentMustNotReturn(())
    }
}

/// An evaluator over the captures `C`.
pub trait Evaluator<C: Captures>:
    Fn(C::Accesses, Frame) -> AMacroInAnArgumentMustNotReturn
{
}

impl<C: Captures, F: Fn(C::Accesses, Frame) -> AMacroInAnArgumentMustNotReturn> Evaluator<C> for F {}

/// Runs the evaluator `F` over `C`. Its thunk calls this.
///
/// # Safety
/// `words` points to the words of `C`. If `F` is not zero-sized, its bits or its address follow these words, as
/// [`ClosureBy::of`] selects. `frame` is the frame pointer of the thunk.
pub(crate) unsafe extern "C" fn evaluate<C: Captures, F: Evaluator<C>>(
    words: *const Words,
    frame: *const c_void,
) {
    // SAFETY: by the contract of this function, the words behind those of `C` are the bits of the closure, or its address.
    // A closure without size has no bits, so any aligned pointer refers to it.
    let closure = unsafe {
        match ClosureBy::of::<F>() {
            ClosureBy::Nothing => &*core::ptr::dangling::<F>(),
            ClosureBy::Bits => &*words.add(C::LEN).cast::<F>(),
            ClosureBy::Address => &**words.add(C::LEN).cast::<*const F>(),
        }
    };
    // SAFETY: by the contract of this function, `words` points to the words of `C`; they stay on the thunk's stack.
    let accesses = unsafe { C::accesses(words) };
    closure(accesses, Frame(frame));
}

/// The form in which a thunk gets the evaluator itself.
enum ClosureBy {
    /// Not at all: it has captured nothing.
    Nothing,
    /// By value, as bits: it has captured one or two references.
    Bits,
    /// By address: it has captured more.
    Address,
}

impl ClosureBy {
    const fn of<F>() -> Self {
        if size_of::<F>() == 0 {
            Self::Nothing
        } else if fits_into::<F, Words>() {
            Self::Bits
        } else {
            Self::Address
        }
    }
}

/// A list of captures that is short enough for an evaluator.
pub trait Evaluate: Captures + Sized {
    /// Runs `evaluator` over `self`, in a cold block that fires at `trampoline`.
    fn evaluate<F: Evaluator<Self>>(self, evaluator: F, trampoline: Trampoline);
}

// SAFETY: `evaluate!` below calls each thunk with the words for which it was made: those of the captures, and of the
// closure if it has a size.
const __SDT_PROMISE: crate::promise::Promise = unsafe { crate::promise::Promise::made() };

/// Implements [`Evaluate`] for lists of captures. The last capture comes first, as it is pushed first.
macro_rules! evaluate {
    ($($count:literal + 1 = $more:literal: $(($name:ident $low:ident $high:ident $type:ident))*;)*) => {$(
        impl<$($type: Capture),*> Evaluate for evaluate!(@list () $([&$type])*) {
            #[inline(always)]
            fn evaluate<F: Evaluator<Self>>(self, evaluator: F, trampoline: Trampoline) {
                // Unused on most routes, where it is `()`.
                _ = trampoline;
                let evaluate!(@list () $([$name])*) = self;
                $(let [$low, $high] = $name.words();)*
                let [closure, again] = match ClosureBy::of::<F>() {
                    ClosureBy::Nothing => {
                        crate::__sdt_arch!(
                            @evaluate
                            crate::thunk::evaluate_thunk::<Self, F, $count>,
                            trampoline,
                            [$(($low, $high))*]
                        );
                        return;
                    }
                    // SAFETY: `ClosureBy::of` returns `Bits` only for a closure that fits into two words.
                    ClosureBy::Bits => unsafe { bits(&evaluator) },
                    ClosureBy::Address => address(&raw const evaluator),
                };
                crate::__sdt_arch!(
                    @evaluate
                    crate::thunk::evaluate_thunk::<Self, F, $more>,
                    trampoline,
                    [(closure, again) $(($low, $high))*]
                );
            }
        }
    )*};
    (@list $list:tt) => { $list };
    (@list $list:tt [$($last:tt)*] $($rest:tt)*) => { evaluate!(@list ($($last)*, $list) $($rest)*) };
}

evaluate! {
    0 + 1 = 1: ;
    1 + 1 = 2: (a al ah A);
    2 + 1 = 3: (b bl bh B) (a al ah A);
    3 + 1 = 4: (c cl ch C) (b bl bh B) (a al ah A);
    4 + 1 = 5: (d dl dh D) (c cl ch C) (b bl bh B) (a al ah A);
    5 + 1 = 6: (e el eh E) (d dl dh D) (c cl ch C) (b bl bh B) (a al ah A);
}
