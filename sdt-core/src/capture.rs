//! How costly argument expressions leave no trace in the hot path.
//!
//! A call in a cold block makes the compiler keep live values in registers that survive calls, and
//! so save those in the *hot* prologue. So an expression that may call something is not evaluated
//! in the cold block: it is compiled as a function of its own, an *evaluator*, which the cold block
//! reaches through a thunk that preserves every register. What the expression uses of the function's
//! locals is handed over by value, in words, because taking a local's address would force it onto
//! the stack, again on the hot path.
//!
//! The macro wraps each local `x` an expression names in [`Local`] and asks for its capture by method
//! call. Method resolution picks, by the local's type: a copy, if it is `Copy`; the pointer, if
//! it is a `&mut`; else its address, which is right for every type and merely not free.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use crate::arch::WORD_STRIDE;
use crate::hit::MAX_ARGS;

/// A word that may be partly padding.
pub type Word = MaybeUninit<u64>;

/// A local as the evaluator gets it.
pub type Words = [Word; 2];

/// A local variable that an argument expression names.
#[derive(Debug)]
pub struct Local<'a, T>(pub &'a T);

/// Locals whose bits can be copied.
pub trait CaptureCopy {
    /// What the capture stands for.
    type Target;

    /// The capture.
    fn __sdt_capture(&self) -> Captured<Self::Target, true>;
}

impl<T: Copy> CaptureCopy for Local<'_, T> {
    type Target = T;

    #[inline(always)]
    fn __sdt_capture(&self) -> Captured<T, true> {
        Captured::copy(self.0)
    }
}

/// Exclusive references: the evaluator gets the pointer, behind a shared reference, so that it can
/// only read through it.
pub trait CaptureUnique {
    /// What the capture stands for.
    type Target;

    /// The capture.
    fn __sdt_capture(&self) -> Captured<Self::Target, true>;
}

impl<'u, U: ?Sized> CaptureUnique for Local<'_, &'u mut U> {
    type Target = &'u mut U;

    #[inline(always)]
    fn __sdt_capture(&self) -> Captured<&'u mut U, true> {
        Captured::copy(self.0)
    }
}

/// Everything else, one step of auto-reference further away and so the last choice.
pub trait CaptureReference {
    /// What the capture stands for.
    type Target;

    /// The capture.
    fn __sdt_capture(&self) -> Captured<Self::Target, false>;
}

impl<T> CaptureReference for &Local<'_, T> {
    type Target = T;

    #[inline(always)]
    fn __sdt_capture(&self) -> Captured<T, false> {
        Captured::reference(self.0)
    }
}

/// Most words of a local that are copied in the cold block. What is larger has an address anyway.
const MOST_COPIED: usize = 8;

/// A captured local of type `T`; with `COPY`, its bits if they fit into two words, or else the address of
/// a copy in the cold block if that is not too large: the address of the local itself would keep it in
/// memory, on the hot path.
#[derive(Debug)]
pub struct Captured<T, const COPY: bool> {
    words: Words,
    copy: [Word; MOST_COPIED],
    target: PhantomData<*const T>,
}

impl<T, const COPY: bool> Captured<T, COPY> {
    const BY_VALUE: bool =
        COPY && size_of::<T>() <= size_of::<Words>() && align_of::<T>() <= align_of::<Words>();

    const BY_COPY: bool = COPY
        && !Self::BY_VALUE
        && size_of::<T>() <= MOST_COPIED * size_of::<Word>()
        && align_of::<T>() <= align_of::<Word>();

    #[inline(always)]
    fn copy(local: &T) -> Self {
        if Self::BY_COPY {
            let mut copy = [Word::uninit(); MOST_COPIED];
            // SAFETY: `BY_COPY`: the bits fit. They are only looked at while `local` is borrowed by the
            // cold block, and nothing is dropped.
            unsafe {
                core::ptr::from_ref(local).copy_to_nonoverlapping(copy.as_mut_ptr().cast(), 1)
            };
            return Self { words: [Word::uninit(); 2], copy, target: PhantomData };
        }
        if !Self::BY_VALUE {
            return Self::reference(local);
        }
        let mut words: Words = [Word::uninit(); 2];
        // SAFETY: `BY_VALUE`: the bits fit. They are only looked at while `local` is borrowed by the
        // cold block, and nothing is dropped.
        unsafe { core::ptr::from_ref(local).copy_to_nonoverlapping(words.as_mut_ptr().cast(), 1) };
        if size_of::<T>() <= size_of::<Word>() {
            // The same value twice needs one register only.
            words[1] = words[0];
        }
        Self { words, copy: [Word::uninit(); MOST_COPIED], target: PhantomData }
    }

    #[inline(always)]
    fn reference(local: &T) -> Self {
        let words = address(local);
        Self { words, copy: [Word::uninit(); MOST_COPIED], target: PhantomData }
    }
}

/// An address, twice: that needs one register only.
#[inline(always)]
fn address<T>(place: *const T) -> Words {
    let mut word = Word::uninit();
    // SAFETY: a thin pointer is one word.
    unsafe { word.as_mut_ptr().cast::<*const T>().write(place) };
    [word; 2]
}

/// A list of captures: `(&a, (&b, ()))`.
pub trait Captures {
    /// How many there are.
    const LEN: usize;

    /// Pointers to the captured locals, in the same shape.
    type Places;

    /// Pointers to the locals that `words` hold.
    ///
    /// # Safety
    /// `words` are the captures' words in order.
    unsafe fn places(words: *const Words) -> Self::Places;
}

impl Captures for () {
    const LEN: usize = 0;
    type Places = ();

    #[inline(always)]
    unsafe fn places(_: *const Words) {}
}

impl<T, const COPY: bool, Rest: Captures> Captures for (&Captured<T, COPY>, Rest) {
    const LEN: usize = 1 + Rest::LEN;
    type Places = (*const T, Rest::Places);

    #[inline(always)]
    unsafe fn places(words: *const Words) -> Self::Places {
        let place = if Captured::<T, COPY>::BY_VALUE {
            words.cast::<T>()
        } else {
            // SAFETY: by contract the words of this capture, which are the local's address twice.
            unsafe { words.cast::<*const T>().read() }
        };
        // SAFETY: by contract the other captures' words follow.
        (place, unsafe { Rest::places(words.add(1)) })
    }
}

impl<T, const COPY: bool> Captured<T, COPY> {
    /// The words to hand over, good as long as `self` stays where it is.
    #[inline(always)]
    fn words(&self) -> Words {
        if Self::BY_COPY { address(self.copy.as_ptr().cast::<T>()) } else { self.words }
    }
}

/// Where in the cold block an evaluator fires: in the thunk's own way.
#[cfg(not(sdt_route = "illumos"))]
pub type Landing = ();

/// Where in the cold block an evaluator fires: the address of the site proper.
#[cfg(sdt_route = "illumos")]
pub type Landing = usize;

/// The frame of the thunk that called an evaluator.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Frame(*const c_void);

impl Frame {
    /// Fires `probe` from this frame.
    ///
    /// Probe context.
    ///
    /// # Safety
    /// `probe` is a record of this image; at most [`MAX_ARGS`] words.
    #[inline(always)]
    pub unsafe fn fire(self, probe: &'static crate::record::Probe, words: &[u64]) {
        // As far apart as the cold block of a site puts them.
        let mut spread = [0; MAX_ARGS * WORD_STRIDE];
        for (place, word) in spread.iter_mut().step_by(WORD_STRIDE).zip(words) {
            *place = *word;
        }
        // SAFETY: by contract, and the frame came from the thunk (`evaluate`).
        unsafe { crate::fire::fire_at(probe, spread.as_ptr(), words.len(), self.0) }
    }
}

/// The evaluator of the closure `F` over `C`, as its thunk calls it.
///
/// # Safety
/// `words` are those of `C` and, if `F` has a size, the closure's address. `frame` is the thunk's.
pub(crate) unsafe extern "C" fn evaluate<C: Captures, F: Fn(C::Places, Frame)>(
    words: *const Words,
    frame: *const c_void,
) {
    let closure: *const F = if size_of::<F>() == 0 {
        core::ptr::dangling()
    } else {
        // SAFETY: by contract.
        unsafe { words.add(C::LEN).cast::<*const F>().read() }
    };
    // SAFETY: by contract; a dangling pointer is enough for a closure without size.
    let closure = unsafe { &*closure };
    // SAFETY: by contract.
    let places = unsafe { C::places(words) };
    closure(places, Frame(frame));
}

/// Lists of captures for which there is an evaluator: those that are short enough.
pub trait Evaluate: Captures + Sized {
    /// Runs the evaluator of `closure` over `self`. For a cold block, which is fired from at `landing`.
    fn evaluate<F: Fn(Self::Places, Frame)>(self, closure: &F, landing: Landing);
}

/// For lists of captures, the last one first, as they are pushed.
macro_rules! evaluate {
    ($($count:literal + 1 = $more:literal: $(($name:ident $low:ident $high:ident $type:ident $copy:ident))*;)*) => {$(
        impl<$($type, const $copy: bool),*> Evaluate for evaluate!(@list () $([&Captured<$type, $copy>])*) {
            #[inline(always)]
            fn evaluate<F: Fn(Self::Places, Frame)>(self, closure: &F, landing: Landing) {
                // On most routes there is nothing in it.
                _ = landing;
                let evaluate!(@list () $([$name])*) = self;
                $(let [$low, $high] = $name.words();)*
                if size_of::<F>() == 0 {
                    crate::__sdt_evaluate!(
                        crate::arch::evaluate_thunk::<Self, F, $count>,
                        landing,
                        [$(($low, $high))*]
                    );
                } else {
                    let [closure, again] = address(core::ptr::from_ref(closure));
                    crate::__sdt_evaluate!(
                        crate::arch::evaluate_thunk::<Self, F, $more>,
                        landing,
                        [(closure, again) $(($low, $high))*]
                    );
                }
            }
        }
    )*};
    (@list $list:tt) => { $list };
    (@list $list:tt [$($last:tt)*] $($rest:tt)*) => { evaluate!(@list ($($last)*, $list) $($rest)*) };
}

evaluate! {
    0 + 1 = 1: ;
    1 + 1 = 2: (a al ah A CA);
    2 + 1 = 3: (b bl bh B CB) (a al ah A CA);
    3 + 1 = 4: (c cl ch C CC) (b bl bh B CB) (a al ah A CA);
    4 + 1 = 5: (d dl dh D CD) (c cl ch C CC) (b bl bh B CB) (a al ah A CA);
    5 + 1 = 6: (e el eh E CE) (d dl dh D CD) (c cl ch C CC) (b bl bh B CB) (a al ah A CA);
}
