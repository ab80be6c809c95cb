//! The arguments of a site as a tuple, and their words.

use core::marker::PhantomData;

use super::{ArgType, Argument, Borrows, Value, Words, words_of};

/// The words of one argument. The type does not depend on the argument's type, so that an unsuitable argument causes
/// only one error.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Two words. A single word is stored twice.
    words: [u64; 2],
    count: usize,
}

impl Carried {
    /// Returns the words of a value. Probe context.
    #[inline(always)]
    pub fn new<A: Value>(of: &A) -> Self {
        Self { words: of.words().pair(), count: words_of::<A>() }
    }

    /// Returns the number of words. A constant after inlining.
    #[inline(always)]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the hit's word at `index` if it belongs to this argument, whose first word is at `start`; otherwise
    /// returns `other`. After inlining, everything except the words is constant, so no branch remains.
    #[inline(always)]
    pub const fn at(&self, start: usize, index: usize, other: u64) -> u64 {
        if index == start {
            self.words[0]
        } else if index == start + 1 && self.count == 2 {
            self.words[1]
        } else {
            other
        }
    }
}

/// The words of an argument of type `A`. Only [`new`](Self::new) creates it, so an implementation of
/// [`Argument`] cannot return the words of another type.
#[derive(Debug)]
pub struct CarriedBy<A: ?Sized> {
    carried: Carried,
    of: PhantomData<fn(&A)>,
}

impl<A: Value> CarriedBy<A> {
    /// Returns the words of a value. Probe context.
    #[inline(always)]
    pub fn new(of: &A) -> Self {
        Self { carried: Carried::new(of), of: PhantomData }
    }
}

impl<A: ?Sized> CarriedBy<A> {
    /// Returns the words without their type.
    #[inline(always)]
    pub fn untyped(self) -> Carried {
        self.carried
    }
}

/// A tuple of `COUNT` arguments.
pub trait Tuple<const COUNT: usize> {
    /// The types of each argument.
    const TYPES: &'static [&'static [ArgType]];

    /// The total number of words.
    const WORDS: usize;

    /// The words that are addresses of borrowed memory.
    const BORROWS: Borrows;

    /// Returns the words of each argument. Probe context.
    fn carried(&self) -> [Carried; COUNT];
}

macro_rules! tuples {
    ($($count:literal: ($($index:tt $arg:ident)*);)*) => {$(
        impl<$($arg: Argument),*> Tuple<$count> for ($($arg,)*) {
            const TYPES: &'static [&'static [ArgType]] = &[$($arg::TYPES),*];
            const WORDS: usize = 0 $(+ words_of::<$arg>())*;
            const BORROWS: Borrows = Borrows::of(&[$($arg::BORROW.of_argument()),*]);

            #[inline(always)]
            fn carried(&self) -> [Carried; $count] {
                [$(self.$index.carried().untyped()),*]
            }
        }
    )*};
}

tuples! {
    0: ();
    1: (0 A);
    2: (0 A 1 B);
    3: (0 A 1 B 2 C);
    4: (0 A 1 B 2 C 3 D);
    5: (0 A 1 B 2 C 3 D 4 E);
    6: (0 A 1 B 2 C 3 D 4 E 5 F);
    7: (0 A 1 B 2 C 3 D 4 E 5 F 6 G);
    8: (0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H);
    9: (0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I);
    10: (0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_one_behind_the_other() {
        let arguments = (1u8, "text", 2u128 << 64 | 3, 4i64);
        let carried = arguments.carried();
        assert_eq!(<(u8, &str, u128, i64) as Tuple<4>>::WORDS, 6);
        let mut words = [u64::MAX; 7];
        let mut start = 0;
        for of in carried {
            for (index, word) in words.iter_mut().enumerate() {
                *word = of.at(start, index, *word);
            }
            start += of.count();
        }
        assert_eq!(words, [1, arguments.1.as_ptr() as u64, 4, 3, 2, 4, u64::MAX]);
    }
}
