//! Evaluators: how they are run, and what they run in.

use core::ffi::c_void;

use super::handed::{address, bits, fits_into};
use super::{Capture, Captures, Words};
use crate::arch::WORD_STRIDE;
use crate::ops::ARGS;

/// Where in the cold block an evaluator fires: in the thunk's own way.
#[cfg(not(sdt_site = "call"))]
pub type Trampoline = ();

/// Where in the cold block an evaluator fires: the address of the probe site.
#[cfg(sdt_site = "call")]
#[derive(Debug)]
pub struct Trampoline(pub(crate) usize);

#[cfg(sdt_site = "call")]
impl Trampoline {
    /// The one at `address`.
    ///
    /// # Safety
    /// What `__sdt_trampoline!` makes is there: a probe site, and behind it the way back.
    #[inline(always)]
    pub const unsafe fn new(address: usize) -> Self {
        Self(address)
    }
}

/// What an evaluator returns. A `return` or a `?` that comes out of a macro would leave the evaluator, and not the
/// function it seems to be in; there is nothing that it could return, and the compiler's error has this name in it.
#[derive(Debug)]
pub struct AMacroInAnArgumentMustNotReturn(pub(super) ());

/// An evaluator. From here, so that the compiler can quote the name of what it returns.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_evaluator {
    (|$places:pat_param, $frame:ident| $body:tt) => {
        |$places, $frame: $crate::__private::capture::Frame| -> $crate::__private::capture::AMacroInAnArgumentMustNotReturn $body
    };
}

/// The frame of the thunk that called an evaluator.
#[derive(Debug)]
#[repr(transparent)]
pub struct Frame(*const c_void);

impl Frame {
    /// Fires `probe` from this frame, with the first `count` words.
    ///
    /// Probe context.
    ///
    /// # Safety
    /// `probe` is a record of this image; at most [`ARGS`] words, of which there are `count`.
    #[inline(always)]
    pub unsafe fn fire(
        &self,
        probe: &'static crate::record::Probe,
        words: &[u64],
        count: usize,
    ) -> AMacroInAnArgumentMustNotReturn {
        // As far apart as the cold block of a site puts them.
        let mut spread = [0; ARGS * WORD_STRIDE];
        for (place, word) in spread.iter_mut().step_by(WORD_STRIDE).zip(words) {
            *place = *word;
        }
        // SAFETY: by contract, and the frame came from the thunk (`evaluate`).
        unsafe { crate::fire::fire_at(probe, spread.as_ptr(), count, self.0) }
        AMacroInAnArgumentMustNotReturn(())
    }
}

/// An evaluator over the captures `C`.
pub trait Evaluator<C: Captures>: Fn(C::Places, Frame) -> AMacroInAnArgumentMustNotReturn {}

impl<C: Captures, F: Fn(C::Places, Frame) -> AMacroInAnArgumentMustNotReturn> Evaluator<C> for F {}

/// Runs the evaluator `F` over `C`, as its thunk calls it.
///
/// # Safety
/// `words` are those of `C` and, if `F` has a size, its bits or its address. `frame` is the thunk's.
pub(crate) unsafe extern "C" fn evaluate<C: Captures, F: Evaluator<C>>(
    words: *const Words,
    frame: *const c_void,
) {
    // SAFETY: by contract; a dangling pointer is enough for a closure without size.
    let closure = unsafe {
        match ClosureBy::of::<F>() {
            ClosureBy::Nothing => &*core::ptr::dangling::<F>(),
            ClosureBy::Bits => &*words.add(C::LEN).cast::<F>(),
            ClosureBy::Address => &**words.add(C::LEN).cast::<*const F>(),
        }
    };
    // SAFETY: by contract.
    let places = unsafe { C::places(words) };
    closure(places, Frame(frame));
}

/// What is handed over of an evaluator itself.
enum ClosureBy {
    /// It has captured nothing.
    Nothing,
    /// It has captured a reference or two.
    Bits,
    /// More than that.
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

/// Lists of captures for which there is an evaluator: those that are short enough.
pub trait Evaluate: Captures + Sized {
    /// Runs `evaluator` over `self`. For a cold block, which is fired from at `trampoline`.
    fn evaluate<F: Evaluator<Self>>(self, evaluator: F, trampoline: Trampoline);
}

/// For lists of captures, the last one first, as they are pushed.
macro_rules! evaluate {
    ($($count:literal + 1 = $more:literal: $(($name:ident $low:ident $high:ident $type:ident))*;)*) => {$(
        impl<$($type: Capture),*> Evaluate for evaluate!(@list () $([&$type])*) {
            #[inline(always)]
            fn evaluate<F: Evaluator<Self>>(self, evaluator: F, trampoline: Trampoline) {
                // On most routes there is nothing in it.
                _ = trampoline;
                let evaluate!(@list () $([$name])*) = self;
                $(let [$low, $high] = $name.words();)*
                let [closure, again] = match ClosureBy::of::<F>() {
                    ClosureBy::Nothing => {
                        crate::__sdt_evaluate!(
                            // SAFETY: the thunk with the words it was made for.
                            unsafe { crate::__private::Sound::promised() },
                            crate::arch::evaluate_thunk::<Self, F, $count>,
                            trampoline,
                            [$(($low, $high))*]
                        );
                        return;
                    }
                    // SAFETY: as large as it is said to be; nothing is dropped.
                    ClosureBy::Bits => unsafe { bits(&evaluator) },
                    ClosureBy::Address => address(&raw const evaluator),
                };
                crate::__sdt_evaluate!(
                    // SAFETY: the thunk with the words it was made for.
                    unsafe { crate::__private::Sound::promised() },
                    crate::arch::evaluate_thunk::<Self, F, $more>,
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
