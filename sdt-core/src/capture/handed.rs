//! Hands a local of the function that fires to an evaluator: in two words, which are the local's bits or an address.

use core::marker::PhantomData;

use super::{Frame, Word, Words};

/// A local that an evaluator gets.
pub trait Capture {
    /// The evaluator's access to the local.
    type Access;

    /// Returns the words for the evaluator. They are valid as long as `self` is not moved.
    fn words(&self) -> Words;

    /// Returns access to the local whose words are at `words`.
    ///
    /// # Safety
    /// `words` points to the result of [`words`](Self::words) of a capture of this type, and neither that capture nor the
    /// words are moved while the access is in use.
    unsafe fn access(words: *const Words) -> Self::Access;
}

/// A local that the evaluator gets by its address.
#[derive(Debug)]
pub struct Borrowed<'a, T>(pub(super) &'a T);

impl<'a, T> Capture for Borrowed<'a, T> {
    type Access = Borrowed<'a, T>;

    #[inline(always)]
    fn words(&self) -> Words {
        address(self.0)
    }

    #[inline(always)]
    unsafe fn access(words: *const Words) -> Self {
        // SAFETY: by the contract of this function, `words` are those of `Borrowed::words`: the address in a `&'a T`,
        // twice. A reference is one word, so reading the first one yields that reference.
        Self(unsafe { words.cast::<&'a T>().read() })
    }
}

impl<'a, T> Borrowed<'a, T> {
    /// Returns the local.
    ///
    /// # Safety
    /// None: the reference carries its own lifetime. The function is `unsafe` because macros call it and
    /// [`CopyAccess::within`] in the same way.
    #[inline(always)]
    pub unsafe fn within(self, _: &Frame) -> &'a T {
        self.0
    }
}

/// The number of words up to which the cold block copies a local. The compiler keeps larger locals in memory anyway.
const MOST_COPIED: usize = 8;

/// A local that the evaluator gets as a copy.
///
/// Its words are its bits if they fit into two words, or else the address of a copy in the cold block if the local is not
/// too large. The address of the local itself would force the local into memory, on the hot path. A static is passed by
/// its address, because an earlier argument may change it.
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

    /// Copies the bits of a local that is `Copy`, or of a reference that the evaluator only reads through.
    #[inline(always)]
    pub(super) fn new(local: &T) -> Self {
        let mut copy = [Word::uninit(); MOST_COPIED];
        let words = if Self::BY_VALUE {
            // SAFETY: `BY_VALUE` implies `fits_into::<T, Words>()`, which `bits` demands.
            unsafe { bits(local) }
        } else if Self::BY_COPY {
            // SAFETY: `BY_COPY` implies that `T` is no larger than `copy` and no more aligned, and `copy` is a local of
            // this function, so it does not overlap `local`.
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
    type Access = CopyAccess<T>;

    #[inline(always)]
    fn words(&self) -> Words {
        if Self::BY_COPY { address(self.copy.as_ptr().cast::<T>()) } else { self.words }
    }

    #[inline(always)]
    unsafe fn access(words: *const Words) -> CopyAccess<T> {
        if Self::BY_VALUE {
            CopyAccess(words.cast())
        } else {
            // SAFETY: by the contract of this function, `words` are those of `Copied::words`. `BY_VALUE` is false, so
            // `address` created them: each is the address of the local or of its copy.
            CopyAccess(unsafe { words.cast::<*const T>().read() })
        }
    }
}

/// An evaluator's access to a copy.
#[derive(Debug)]
pub struct CopyAccess<T>(*const T);

impl<T> CopyAccess<T> {
    /// Returns the copy, for as long as the evaluator has its frame.
    ///
    /// # Safety
    /// One run of the evaluator got both this access and the frame.
    #[inline(always)]
    pub unsafe fn within(self, _: &Frame) -> &T {
        // SAFETY: `Copied::access` has created this pointer: to the words on the stack of this run's thunk, or to the
        // capture in the cold block. Neither moves before the evaluator returns, and the result cannot outlive the
        // frame, which does not leave the evaluator.
        unsafe { &*self.0 }
    }
}

/// Returns whether a `T` can be stored where there is room for a `Room`.
pub(super) const fn fits_into<T, Room>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// Returns the bits of a value that fits into two words. Nothing is dropped.
///
/// # Safety
/// `fits_into::<T, Words>()` is true.
#[inline(always)]
pub(super) unsafe fn bits<T>(of: &T) -> Words {
    let mut words: Words = [Word::uninit(); 2];
    // SAFETY: `T` fits into `words`, by the contract of this function, and `words` is a local, so it does not overlap `of`.
    unsafe { core::ptr::from_ref(of).copy_to_nonoverlapping(words.as_mut_ptr().cast(), 1) };
    if size_of::<T>() <= size_of::<Word>() {
        // The same value twice needs only one register.
        words[1] = words[0];
    }
    words
}

/// Returns an address, twice: that needs only one register.
#[inline(always)]
pub(super) fn address<T>(of: *const T) -> Words {
    // SAFETY: a thin pointer has at most 8 bytes and the alignment of its size, so it fits into two words.
    unsafe { bits(&of) }
}

/// A list of captures: `(&a, (&b, ()))`.
pub trait Captures {
    /// The number of captures.
    const LEN: usize;

    /// The accesses to the captured locals, in a list of the same shape.
    type Accesses;

    /// Returns the accesses to the locals whose words are at `words`.
    ///
    /// # Safety
    /// `words` points to the words of all captures of the list, in order, each as [`Capture::access`] demands.
    unsafe fn accesses(words: *const Words) -> Self::Accesses;
}

impl Captures for () {
    const LEN: usize = 0;
    type Accesses = ();

    #[inline(always)]
    unsafe fn accesses(_: *const Words) {}
}

impl<First: Capture, Rest: Captures> Captures for (&First, Rest) {
    const LEN: usize = 1 + Rest::LEN;
    type Accesses = (First::Access, Rest::Accesses);

    #[inline(always)]
    unsafe fn accesses(words: *const Words) -> Self::Accesses {
        // SAFETY: by the contract of this function, the first two words are those of `First`, and those of `Rest` follow.
        unsafe { (First::access(words), Rest::accesses(words.add(1))) }
    }
}
