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

/// A captured local of type `T`; with `COPY`, its bits if they fit into two words.
#[derive(Debug)]
pub struct Captured<T, const COPY: bool> {
    words: Words,
    target: PhantomData<*const T>,
}

// Not derived: the words are copied whatever `T` is.
impl<T, const COPY: bool> Clone for Captured<T, COPY> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const COPY: bool> Copy for Captured<T, COPY> {}

impl<T, const COPY: bool> Captured<T, COPY> {
    const BY_VALUE: bool =
        COPY && size_of::<T>() <= size_of::<Words>() && align_of::<T>() <= align_of::<Words>();

    #[inline(always)]
    fn copy(local: &T) -> Self {
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
        Self { words, target: PhantomData }
    }

    #[inline(always)]
    fn reference(local: &T) -> Self {
        let mut word = Word::uninit();
        // SAFETY: a thin pointer is one word.
        unsafe { word.as_mut_ptr().cast::<*const T>().write(local) };
        Self { words: [word; 2], target: PhantomData }
    }
}

/// A list of captures: `(a, (b, ()))`.
pub trait Captures {
    /// Pointers to the captured locals, in the same shape.
    type Places;

    /// Pointers to the locals that `words` hold.
    ///
    /// # Safety
    /// `words` are the captures' words in order.
    unsafe fn places(words: *const Words) -> Self::Places;
}

impl Captures for () {
    type Places = ();

    #[inline(always)]
    unsafe fn places(_: *const Words) {}
}

impl<T, const COPY: bool, Rest: Captures> Captures for (Captured<T, COPY>, Rest) {
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
    /// The words to hand over.
    #[inline(always)]
    pub const fn words(&self) -> Words {
        self.words
    }
}

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
    /// `probe` is a record of this image; at most [`MAX_ARGS`](crate::fire::MAX_ARGS) words.
    #[inline(always)]
    pub unsafe fn fire(self, probe: &'static crate::record::Probe, words: &[u64]) {
        // SAFETY: by contract, and the frame came from the thunk (`evaluate`).
        unsafe { crate::arch::fire_at(probe, words.as_ptr(), words.len(), self.0) }
    }
}

/// An evaluator as the thunk calls it: the words from the stack, the thunk's frame pointer.
pub type Evaluator = unsafe extern "C" fn(*const Word, *const c_void);

/// Evaluator of the closure `F`: the first word is the closure's address, the captures follow.
///
/// # Safety
/// `words` are the closure's address (of any value if it has no size) and the words of `C`.
unsafe extern "C" fn evaluate<C: Captures, F: Fn(C::Places, Frame)>(
    words: *const Word,
    frame: *const c_void,
) {
    // SAFETY: by contract; an address of a closure without size is dangling and that is enough.
    let closure = unsafe { &*words.cast::<*const F>().read() };
    // SAFETY: by contract.
    let places = unsafe { C::places(words.add(1).cast()) };
    closure(places, Frame(frame));
}

/// The evaluator of `closure` over `captures`, and the word by which it finds the closure.
#[inline(always)]
pub fn evaluator<C: Captures, F: Fn(C::Places, Frame)>(_: &C, closure: &F) -> (Evaluator, Word) {
    let closure: *const F =
        if size_of::<F>() == 0 { core::ptr::dangling() } else { core::ptr::from_ref(closure) };
    let mut word = Word::uninit();
    // SAFETY: a thin pointer is one word.
    unsafe { word.as_mut_ptr().cast::<*const F>().write(closure) };
    (evaluate::<C, F>, word)
}
