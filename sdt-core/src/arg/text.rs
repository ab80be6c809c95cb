//! Text and slices: a C string is passed by its address, all others by address and length.
//!
//! In D on `sdt-framework`, text and bytes are one value: `args[n]` of the address is a `string` of exactly that
//! length. The types of the two words request this: the first is translated to `string`, the second to `size_t`. On
//! FreeBSD and illumos the types are different, because a string there must end with a NUL.
//!
//! A C string is a `char *`, as in C's providers: it may be NULL, and D programs read its characters.

use core::ffi::CStr;
use core::ptr::null;

use super::borrow::First;
use super::pointers::elements;
use super::{ArgType, Argument, Borrow, CType, Value, Words};
use crate::name::TypeName;

const CHARS: ArgType = ArgType::native(TypeName::new("char *"));
const LENGTH: ArgType = ArgType::native(TypeName::new("size_t"));

/// The type of the address of text that ends with a NUL and was created for D.
pub(super) const MADE: ArgType = as_string(CHARS);

/// The types of the address and the length of text.
const TEXT: &[ArgType] = &as_text(CHARS);

/// The types of the address and the length of a slice; a slice of bytes is text.
const fn slice<T: CType>() -> &'static [ArgType] {
    const {
        let address = ArgType::native(elements::<T>());
        &if T::IS_BYTE { as_text(address) } else { [address, LENGTH] }
    }
}

/// The types of an address and a length, which are one value in D on `sdt-framework`.
const fn as_text(address: ArgType) -> [ArgType; 2] {
    let string = as_string(address);
    [string, if string.translated.is_some() { LENGTH.translated_to(LENGTH.native) } else { LENGTH }]
}

/// The type of an address that is a string in D on `sdt-framework`.
const fn as_string(address: ArgType) -> ArgType {
    if cfg!(any(target_os = "freebsd", target_os = "illumos")) {
        return address;
    }
    address.translated_to(TypeName::new("string"))
}

macro_rules! arguments {
    ($([$($generics:tt)*] $rust:ty: $types:expr;)*) => {$(
        impl<$($generics)*> Argument for $rust {
            const TYPES: &'static [ArgType] = $types;
        }
    )*};
}

macro_rules! values {
    ($([$($generics:tt)*] $rust:ty, $words:ty, $first:expr, |$value:ident| $of:expr;)*) => {$(
        impl<$($generics)*> Value for $rust {
            type Words = $words;
            const BORROW: Borrow<Self> = Borrow::new($first, <$words as Words>::COUNT);

            #[inline(always)]
            fn words(&self) -> $words {
                let $value = self;
                $of
            }
        }
    )*};
}

/// Returns the address, and the length in elements.
#[inline(always)]
fn extent<T>(slice: &[T]) -> [u64; 2] {
    // The provenance is exposed, because the framework or a D program turns the address back into a pointer.
    [slice.as_ptr().expose_provenance() as u64, slice.len() as u64]
}

#[inline(always)]
fn address(text: Option<&CStr>) -> [u64; 1] {
    [text.map_or(null(), CStr::as_ptr).expose_provenance() as u64]
}

/// A slice of elements with a size has at least as many bytes as elements.
const fn text_of<T>() -> First {
    if size_of::<T>() == 0 { First::Number } else { First::Text }
}

values! {
    [] &CStr, [u64; 1], First::Address, |text| address(Some(text));
    [] Option<&CStr>, [u64; 1], First::Address, |text| address(*text);
    [] &str, [u64; 2], First::Text, |text| extent(text.as_bytes());
    [] &mut str, [u64; 2], First::Text, |text| extent(text.as_bytes());
    [] Option<&str>, [u64; 2], First::Text, |text| text.map_or([0; 2], |text| extent(text.as_bytes()));
    [T] &[T], [u64; 2], text_of::<T>(), |slice| extent(slice);
    [T] &mut [T], [u64; 2], text_of::<T>(), |slice| extent(slice);
    [T] Option<&[T]>, [u64; 2], text_of::<T>(), |slice| slice.map_or([0; 2], extent);
}

arguments! {
    [] &CStr: &[CHARS];
    [] Option<&CStr>: &[CHARS];
    [] &str: TEXT;
    [] &mut str: TEXT;
    [] Option<&str>: TEXT;
    [T: CType] &[T]: slice::<T>();
    [T: CType] &mut [T]: slice::<T>();
    [T: CType] Option<&[T]>: slice::<T>();
}
