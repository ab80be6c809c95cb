//! Numbers, `bool` and `char`, and `Option`s of them.

use core::num::NonZero;

use super::{ArgType, Argument, Value};
use crate::name::TypeName;

/// Whether there is a value: the second word of an `Option`.
const IS_SOME: ArgType = ArgType::native(TypeName::new("_Bool"));

macro_rules! numbers {
    ($($rust:ty: $c:literal, |$value:ident| $word:expr;)*) => {$(
        impl Value for $rust {
            type Words = [u64; 1];

            #[inline(always)]
            fn words(&self) -> [u64; 1] {
                let $value = *self;
                [$word]
            }
        }

        impl Argument for $rust {
            const TYPES: &'static [ArgType] = &[ArgType::native(TypeName::new($c))];
        }

        impl Value for Option<$rust> {
            type Words = [u64; 2];

            #[inline(always)]
            fn words(&self) -> [u64; 2] {
                match *self {
                    Some($value) => [$word, 1],
                    None => [0, 0],
                }
            }
        }

        impl Argument for Option<$rust> {
            const TYPES: &'static [ArgType] = &[ArgType::native(TypeName::new($c)), IS_SOME];
        }
    )*};
}

// Each number is converted through the 64-bit integer of the same signedness, so that its sign is kept. `usize` and
// `isize` are cast, because only targets with 64-bit words are supported.
numbers! {
    u8: "uint8_t", |value| u64::from(value);
    u16: "uint16_t", |value| u64::from(value);
    u32: "uint32_t", |value| u64::from(value);
    u64: "uint64_t", |value| value;
    i8: "int8_t", |value| i64::from(value) as u64;
    i16: "int16_t", |value| i64::from(value) as u64;
    i32: "int", |value| i64::from(value) as u64;
    i64: "int64_t", |value| value as u64;
    usize: "size_t", |value| value as u64;
    isize: "ssize_t", |value| value as u64;
    bool: "_Bool", |value| u64::from(value);
    char: "uint32_t", |value| u64::from(u32::from(value));
}

macro_rules! non_zero {
    ($($rust:ty)*) => {$(
        impl Value for NonZero<$rust> {
            type Words = [u64; 1];

            #[inline(always)]
            fn words(&self) -> [u64; 1] {
                self.get().words()
            }
        }

        impl Argument for NonZero<$rust> {
            const TYPES: &'static [ArgType] = <$rust as Argument>::TYPES;
        }

        impl Value for Option<NonZero<$rust>> {
            type Words = [u64; 1];

            #[inline(always)]
            fn words(&self) -> [u64; 1] {
                self.map_or([0], |value| value.get().words())
            }
        }

        impl Argument for Option<NonZero<$rust>> {
            const TYPES: &'static [ArgType] = <$rust as Argument>::TYPES;
        }
    )*};
}

non_zero! { u8 u16 u32 u64 i8 i16 i32 i64 usize isize }

/// D has no 128-bit integer, so it gets both halves: the low half first, as in C's registers.
macro_rules! wide {
    ($($rust:ty: $high:literal;)*) => {$(
        impl Value for $rust {
            type Words = [u64; 2];

            #[inline(always)]
            fn words(&self) -> [u64; 2] {
                [*self as u64, (*self >> 64) as u64]
            }
        }

        impl Argument for $rust {
            const TYPES: &'static [ArgType] = &[
                ArgType::native(TypeName::new("uint64_t")),
                ArgType::native(TypeName::new($high)),
            ];
        }
    )*};
}

wide! {
    u128: "uint64_t";
    i128: "int64_t";
}
