//! The words of a hit that are addresses of memory which the site borrows until the hit is recorded.
//!
//! A framework gets words. A word that looks like an address can be any number, but the type of the argument can guarantee more:
//! a `&str` is borrowed while its probe fires, so its memory is mapped. [`Borrow`] is the proof for one type, and [`Borrows`]
//! contains the proofs for all words of a probe.

use core::marker::PhantomData;

use crate::ops::ARGS;

/// Whether the [words](super::Value::words) of a `T` are addresses of memory that stays mapped while the `T` exists. Only this crate can
/// create one for addresses, and only for the type `T`, so implementations of [`Value`](super::Value) in other crates cannot claim it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Borrow<T: ?Sized> {
    first: First,
    /// The number of words of a value.
    words: usize,
    of: PhantomData<fn(&T)>,
}

/// The first word of a value. The numbers are those of [`Borrows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Any number.
    Number = 0,
    /// 0, or the address of at least one byte of borrowed memory.
    Address = 1,
    /// The address of borrowed memory; the second word is a number of bytes, and at least these are borrowed.
    Text = 2,
}

impl<T: ?Sized> Borrow<T> {
    /// Creates the borrow of a value of this number of words, the first of which is of this kind.
    pub(super) const fn new(first: First, words: usize) -> Self {
        Self { first, words, of: PhantomData }
    }

    /// Returns the borrow without the type, for [`Borrows::of`].
    #[doc(hidden)]
    pub const fn of_argument(self) -> ArgumentBorrow {
        ArgumentBorrow { first: self.first, words: self.words }
    }
}

/// The memory that an argument with `words` words borrows.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ArgumentBorrow {
    first: First,
    words: usize,
}

impl ArgumentBorrow {
    /// The borrow of an argument of one word that is a number.
    pub const NUMBER: Self = Self { first: First::Number, words: 1 };
}

/// The memory that the words of a probe's hits borrow from the firing function: two bits for each word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borrows(u32);

impl Borrows {
    /// The number of bits of a word.
    const BITS: usize = 2;
    /// The bits of the first word.
    const MASK: u32 = (1 << Self::BITS) - 1;

    /// All words are numbers.
    pub const NOTHING: Self = Self(0);

    /// Returns the borrows of the words of these arguments, in order.
    #[doc(hidden)]
    pub const fn of(arguments: &[ArgumentBorrow]) -> Self {
        let (mut bits, mut word, mut i) = (0, 0, 0);
        while i < arguments.len() && word < ARGS {
            bits |= (arguments[i].first as u32) << (word * Self::BITS);
            word += arguments[i].words;
            i += 1;
        }
        Self(bits)
    }

    /// Returns the borrows that both probes have. A word for which they differ becomes a number.
    #[cfg(any(test, sdt_route = "provider"))]
    pub(crate) fn and(self, other: Self) -> Self {
        let words = (0..ARGS).map(|word| Self::MASK << (word * Self::BITS));
        let same = words.filter(|mask| (self.0 ^ other.0) & mask == 0);
        Self(same.fold(0, |bits, mask| bits | self.0 & mask))
    }

    /// Returns the borrows as a number.
    #[cfg(any(test, sdt_route = "provider"))]
    pub(crate) const fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the borrows from a result of [`to_bits`](Self::to_bits).
    #[cfg(any(test, sdt_route = "provider"))]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns whether all words are numbers.
    #[inline(always)]
    pub const fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Returns the address and the length in bytes of each range of memory that a hit with these words borrows. More bytes
    /// may be borrowed behind a range. Any context.
    pub fn ranges(self, words: &[u64; ARGS]) -> impl Iterator<Item = (u64, u64)> {
        let mut bits = self.0;
        let next = move || {
            let index = (bits != 0).then(|| bits.trailing_zeros() as usize / Self::BITS)?;
            let first = bits >> (index * Self::BITS) & Self::MASK;
            bits &= !(Self::MASK << (index * Self::BITS));
            let word = |index: usize| words.get(index).copied().unwrap_or(0);
            let length = match first == First::Text as u32 {
                true => word(index + 1),
                false => u64::from(word(index) != 0),
            };
            Some((word(index), length))
        };
        core::iter::from_fn(next).filter(|&(_, length)| length > 0)
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;
    use crate::arg::{Argument, Tuple, Value};

    fn borrows<T: Tuple<COUNT>, const COUNT: usize>(_: &T) -> Borrows {
        T::BORROWS
    }

    #[test]
    fn only_references_borrow() {
        let number = 7_u32;
        let pointer = &raw const number;
        let args = (1_u64, "text", pointer, c"c", 2_i128, &[3_u16, 4][..], &number);
        let words = [1, 100, 4, 200, 300, 2, 0, 400, 2, 500];
        let found: Vec<_> = borrows(&args).ranges(&words).collect();
        assert_eq!(found, [(100, 4), (300, 1), (400, 2), (500, 1)]);
        assert!(borrows(&(1_u8, pointer, 'x')).is_nothing());
        let missing = (None::<&str>, None::<&CStr>, None::<&u32>, "");
        assert_eq!(borrows(&missing).ranges(&[0; ARGS]).next(), None);
    }

    /// Elements without a size have no memory, however many there are.
    #[test]
    fn nothing_is_borrowed_of_empty_elements() {
        fn is_nothing<T: Value>() -> bool {
            T::BORROW.first == First::Number
        }
        assert!(is_nothing::<&[()]>() && is_nothing::<&()>() && is_nothing::<&[u8; 0]>());
        assert!(!is_nothing::<&[u8]>() && !is_nothing::<&[u8; 1]>());
    }

    #[test]
    fn types_of_other_crates_borrow_nothing() {
        struct Claims;
        impl Value for Claims {
            type Words = [u64; 2];
            fn words(&self) -> [u64; 2] {
                [8, u64::MAX]
            }
        }
        impl Argument for Claims {
            const TYPES: &'static [crate::arg::ArgType] = <&str>::TYPES;
        }
        assert!(borrows(&(Claims,)).is_nothing());
    }

    #[test]
    fn both_borrow_what_is_the_same_in_both() {
        let (text, other) = (borrows(&("a", "b")), borrows(&("a", 1_u64, 2_u64)));
        assert_eq!(text.and(other), borrows(&("a", 1_u64)));
        assert_eq!(text.and(text), text);
        assert_eq!(Borrows::from_bits(text.to_bits()), text);
        let (address, length) = (borrows(&(c"a",)), borrows(&("a",)));
        assert!(address.and(length).is_nothing());
    }
}
