//! How costly argument expressions leave no trace in the hot path.
//!
//! A call in a cold block makes the compiler keep live values in registers that survive calls, and
//! so save those in the *hot* prologue. So an expression that may call something is not evaluated
//! in the cold block: it is compiled as a function of its own, an *evaluator*, which the cold block
//! reaches through a thunk that preserves every register. What the expression uses of the function's
//! locals is handed over by value, in words, because taking a local's address would force it onto
//! the stack, again on the hot path.
//!
//! The evaluator is a closure, so that whatever the expression names is what it names where it stands. The macro
//! takes from the closure's captures only names of which it is certain: it wraps each of them in a [`Local`], where
//! and as the expression names it, and asks for its capture. Method resolution picks, by the local's type: a copy, if
//! it is `Copy`; the pointer, if it is a `&mut`; else its address, which is right for every type and merely not free.
//! What the closure captures besides goes the same way, as the bits of the closure.
//!
//! # Lifetimes
//!
//! A copy lives as long as the evaluator runs, and what is borrowed from it no longer: its lifetime is that of the
//! [`Frame`] the evaluator is given. What goes by address is borrowed as the compiler sees it, a local for as long as
//! the function lets it, a static for ever.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Deref;

use crate::arch::WORD_STRIDE;
use crate::hit::ARGS;

/// A word that may be partly padding.
pub type Word = MaybeUninit<u64>;

/// A local as the evaluator gets it.
pub type Words = [Word; 2];

/// A local variable that an argument expression names. `S` has no size if it may be a `static mut`, and is one.
///
/// `capture` is there three times, for three kinds of types: the first that fits is the one that is called.
#[derive(Debug)]
pub struct Local<'a, T, S = Stack>(NotCopy<'a, T, S>);

/// A local whose type is not `Copy`.
#[derive(Debug)]
pub struct NotCopy<'a, T, S>(Other<'a, T, S>);

/// A local that is no exclusive reference either.
#[derive(Debug)]
pub struct Other<'a, T, S> {
    place: &'a T,
    is_static: PhantomData<S>,
}

/// Says that a local is no static.
#[derive(Debug)]
pub struct Stack(#[expect(dead_code, reason = "for its size")] u8);

impl<'a, T> Local<'a, T> {
    /// A local, or a static that is not `mut`.
    #[inline(always)]
    pub const fn new(place: &'a T) -> Self {
        Self(NotCopy(Other { place, is_static: PhantomData }))
    }
}

impl<'a, T, S> Local<'a, T, S> {
    /// A local, or, if `naming` captures nothing by naming it, a static.
    #[inline(always)]
    pub fn unless_static(place: &'a T, naming: S) -> Self {
        _ = naming;
        Self(NotCopy(Other { place, is_static: PhantomData }))
    }
}

impl<T: Copy, S> Local<'_, T, S> {
    /// The bits.
    #[inline(always)]
    pub fn capture(&self) -> Copied<T, S> {
        Copied::new(self.place)
    }
}

impl<'a, T, S> Deref for Local<'a, T, S> {
    type Target = NotCopy<'a, T, S>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'u, U: ?Sized, S> NotCopy<'_, &'u mut U, S> {
    /// The pointer, behind a shared reference, so that the evaluator can only read through it.
    #[inline(always)]
    pub fn capture(&self) -> Copied<&'u mut U, S> {
        Copied::new(self.place)
    }
}

impl<'a, T, S> Deref for NotCopy<'a, T, S> {
    type Target = Other<'a, T, S>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a, T, S> Other<'a, T, S> {
    /// The address.
    #[inline(always)]
    pub fn capture(&self) -> Borrowed<'a, T> {
        Borrowed(self.place)
    }
}

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
pub struct Borrowed<'a, T>(&'a T);

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
    fn new(local: &T) -> Self {
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

const fn fits_into<T, Room>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// The bits of what fits into two words. Nothing is dropped.
///
/// # Safety
/// It [fits](fits_into).
#[inline(always)]
unsafe fn bits<T>(of: &T) -> Words {
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
fn address<T>(place: *const T) -> Words {
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
pub struct AMacroInAnArgumentMustNotReturn(());

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

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    const DONE: AMacroInAnArgumentMustNotReturn = AMacroInAnArgumentMustNotReturn(());

    /// What a site's macro makes of an argument, but for the probe: gives what `value` is when the evaluator runs.
    macro_rules! evaluated {
        ($([$local:ident = $of:expr])* => $value:expr) => {{
            let got = Cell::new(None);
            $(let $local = $of.capture();)*
            evaluated!(@run got $value, () (), $($local)*);
            got.take().expect("the evaluator has run")
        }};
        (@run $got:ident $value:expr, $list:tt $places:tt, $last:ident $($local:ident)*) => {
            evaluated!(@run $got $value, (&$last, $list) ($last, $places), $($local)*)
        };
        (@run $got:ident $value:expr, $list:tt $places:tt,) => {
            evaluated!(@places $list $places, $got $value)
        };
        (@places $list:tt $places:tt, $got:ident $value:expr) => {
            Evaluate::evaluate($list, |evaluated!(@pattern $places), frame| {
                evaluated!(@within frame $places);
                $got.set(Some($value));
                DONE
            }, ())
        };
        (@pattern ()) => { () };
        (@pattern ($local:ident, $rest:tt)) => { ($local, evaluated!(@pattern $rest)) };
        (@within $frame:ident ()) => { _ = &$frame; };
        (@within $frame:ident ($local:ident, $rest:tt)) => {
            // SAFETY: the places of this run.
            let $local = unsafe { $local.within(&$frame) };
            evaluated!(@within $frame $rest);
        };
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Bits<const WORDS: usize>([u64; WORDS], u8);

    fn bits_of<const WORDS: usize>() -> Bits<WORDS> {
        Bits(core::array::from_fn(|i| i as u64 + 1), 77)
    }

    #[test]
    fn copies_of_all_sizes_arrive() {
        let (byte, pair, text) = (5u8, (6u64, 7u16), "text");
        assert_eq!(evaluated!([byte = Local::new(&byte)] => * byte), 5);
        assert_eq!(evaluated!([pair = Local::new(&pair)] => * pair), (6, 7));
        assert_eq!(evaluated!([text = Local::new(&text)] => text.len()), 4);
        let (small, middle, large) = (bits_of::<1>(), bits_of::<7>(), bits_of::<8>());
        assert_eq!(evaluated!([small = Local::new(&small)] => * small), small);
        assert_eq!(evaluated!([middle = Local::new(&middle)] => * middle), middle);
        assert_eq!(evaluated!([large = Local::new(&large)] => * large), large);
        assert_eq!(evaluated!([nothing = Local::new(&())] => * nothing), ());
    }

    /// Padding is copied, too, and is nothing to be looked at; alignment beyond a word's goes by address.
    #[test]
    fn padding_and_alignment_do_not_matter() {
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Aligned(u8);
        let (padded, aligned) = ((1u8, 2u32, 3u8), Aligned(4));
        assert_eq!(evaluated!([padded = Local::new(&padded)] => * padded), padded);
        let (value, misaligned) = evaluated!([aligned = Local::new(&aligned)] => (
            aligned.0,
            core::ptr::from_ref(aligned).addr() % 64
        ));
        assert_eq!((value, misaligned), (4, 0));
    }

    #[test]
    fn what_is_not_copied_is_the_local_itself() {
        let vector = vec![1, 2];
        let (sum, place) = evaluated!([vector = Local::new(&vector)] => (
            vector.iter().sum::<i32>(),
            core::ptr::from_ref(vector)
        ));
        assert_eq!((sum, place), (3, &raw const vector));
    }

    #[test]
    fn an_exclusive_reference_is_read_through() {
        let mut value = vec![1];
        let exclusive = &mut value;
        assert_eq!(evaluated!([exclusive = Local::new(&exclusive)] => exclusive.len()), 1);
        exclusive.push(2);
        assert_eq!(value, [1, 2]);
    }

    #[test]
    fn a_static_is_not_copied() {
        let value = 9u64;
        let place = evaluated!(
            [place = Local::unless_static(&value, ())] => core::ptr::from_ref(place)
        );
        assert_eq!(place, &raw const value);
        let copy = evaluated!(
            [copy = Local::unless_static(&value, || _ = &value)] => core::ptr::from_ref(copy)
        );
        assert_ne!(copy, &raw const value);
    }

    #[test]
    fn several_come_in_order() {
        let (a, b, c, d, e) = (1u8, vec![2u8], 3u8, [4u64; 5], 5u8);
        let list = evaluated!(
            [a = Local::new(&a)] [b = Local::new(&b)] [c = Local::new(&c)] [d = Local::new(&d)]
            [e = Local::new(&e)] => [u64::from(*a), u64::from(b[0]), u64::from(*c), d[4], u64::from(*e)]
        );
        assert_eq!(list, [1, 2, 3, 4, 5]);
    }

    /// An evaluator is handed over as nothing, as its bits, and by its address.
    #[test]
    fn evaluators_of_all_sizes_run() {
        static RUNS: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
        let count = || RUNS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        ().evaluate(
            |(), _: Frame| {
                count();
                DONE
            },
            (),
        );
        assert_eq!(RUNS.load(core::sync::atomic::Ordering::Relaxed), 1);
        let (a, b, c) = (Cell::new(0), Cell::new(0), Cell::new(0));
        ().evaluate(
            |(), _: Frame| {
                a.set(1);
                b.set(2);
                DONE
            },
            (),
        );
        assert_eq!((a.get(), b.get()), (1, 2));
        ().evaluate(
            |(), _: Frame| {
                a.set(3);
                b.set(4);
                c.set(5);
                DONE
            },
            (),
        );
        assert_eq!((a.get(), b.get(), c.get()), (3, 4, 5));
    }
}
