//! What an evaluator is handed of a local, in words: its bits, or an address.

use core::marker::PhantomData;

use super::{Frame, Word, Words};

/// What an evaluator is handed of a local.
pub trait Capture {
    /// What finds the local by its words.
    type Place;

    /// The words to hand over, good as long as `self` stays where it is.
    fn words(&self) -> Words;

    /// The place of the local that `words` hold.
    ///
    /// # Safety
    /// `words` are those of such a capture.
    unsafe fn place(words: *const Words) -> Self::Place;
}

/// The address of a local.
#[derive(Debug)]
pub struct Borrowed<'a, T>(pub(super) &'a T);

impl<'a, T> Capture for Borrowed<'a, T> {
    type Place = Borrowed<'a, T>;

    #[inline(always)]
    fn words(&self) -> Words {
        address(self.0)
    }

    #[inline(always)]
    unsafe fn place(words: *const Words) -> Self {
        // SAFETY: by contract the words are the address of what is borrowed for `'a`, twice.
        Self(unsafe { words.cast::<&'a T>().read() })
    }
}

impl<'a, T> Borrowed<'a, T> {
    /// The local.
    ///
    /// # Safety
    /// Always sound: there is nothing to it that the borrow does not say. `unsafe`, as it is called like the other.
    #[inline(always)]
    pub unsafe fn within(self, _: &Frame) -> &'a T {
        self.0
    }
}

/// Most words of a local that are copied in the cold block. What is larger has an address anyway.
const MOST_COPIED: usize = 8;

/// The bits of a local if they fit into two words, or else the address of a copy in the cold block if that is not too
/// large: the address of the local itself would keep it in memory, on the hot path. A static goes by its address, for
/// an argument in front may change it.
#[derive(Debug)]
pub struct Copied<T, S> {
    words: Words,
    copy: [Word; MOST_COPIED],
    of: PhantomData<(*const T, *const S)>,
}

impl<T, S> Copied<T, S> {
    const BY_VALUE: bool = size_of::<S>() != 0 && fits_into::<T, Words>();

    const BY_COPY: bool =
        size_of::<S>() != 0 && !Self::BY_VALUE && fits_into::<T, [Word; MOST_COPIED]>();

    /// Copies the bits of a local that is `Copy`, or of a reference that is only read through.
    #[inline(always)]
    pub(super) fn new(local: &T) -> Self {
        let mut copy = [Word::uninit(); MOST_COPIED];
        let words = if Self::BY_VALUE {
            // SAFETY: `BY_VALUE`: they fit.
            unsafe { bits(local) }
        } else if Self::BY_COPY {
            // SAFETY: `BY_COPY`: they fit.
            unsafe {
                core::ptr::from_ref(local).copy_to_nonoverlapping(copy.as_mut_ptr().cast(), 1)
            };
            [Word::uninit(); 2]
        } else {
            address(local)
        };
        Self { words, copy, of: PhantomData }
    }
}

impl<T, S> Capture for Copied<T, S> {
    type Place = CopyPlace<T>;

    #[inline(always)]
    fn words(&self) -> Words {
        if Self::BY_COPY { address(self.copy.as_ptr().cast::<T>()) } else { self.words }
    }

    #[inline(always)]
    unsafe fn place(words: *const Words) -> CopyPlace<T> {
        if Self::BY_VALUE {
            CopyPlace(words.cast())
        } else {
            // SAFETY: by contract the words of this capture, which are an address twice.
            CopyPlace(unsafe { words.cast::<*const T>().read() })
        }
    }
}

/// Where a copy is while an evaluator runs.
#[derive(Debug)]
pub struct CopyPlace<T>(*const T);

impl<T> CopyPlace<T> {
    /// The copy, for as long as the evaluator has its frame.
    ///
    /// # Safety
    /// The evaluator was given both in one run.
    #[inline(always)]
    pub unsafe fn within(self, _: &Frame) -> &T {
        // SAFETY: by contract the bits of the local, or it itself.
        unsafe { &*self.0 }
    }
}

pub(super) const fn fits_into<T, Room>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// The bits of what fits into two words. Nothing is dropped.
///
/// # Safety
/// It [fits](fits_into).
#[inline(always)]
pub(super) unsafe fn bits<T>(of: &T) -> Words {
    let mut words: Words = [Word::uninit(); 2];
    // SAFETY: by contract they fit.
    unsafe { core::ptr::from_ref(of).copy_to_nonoverlapping(words.as_mut_ptr().cast(), 1) };
    if size_of::<T>() <= size_of::<Word>() {
        // The same value twice needs one register only.
        words[1] = words[0];
    }
    words
}

/// An address, twice: that needs one register only.
#[inline(always)]
pub(super) fn address<T>(place: *const T) -> Words {
    // SAFETY: a thin pointer is one word at most.
    unsafe { bits(&place) }
}

/// A list of captures: `(&a, (&b, ()))`.
pub trait Captures {
    /// How many there are.
    const LEN: usize;

    /// The places of the captured locals, in the same shape.
    type Places;

    /// The places of the locals that `words` hold.
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

impl<First: Capture, Rest: Captures> Captures for (&First, Rest) {
    const LEN: usize = 1 + Rest::LEN;
    type Places = (First::Place, Rest::Places);

    #[inline(always)]
    unsafe fn places(words: *const Words) -> Self::Places {
        // SAFETY: by contract the words of the first, and behind them those of the others.
        unsafe { (First::place(words), Rest::places(words.add(1))) }
    }
}
