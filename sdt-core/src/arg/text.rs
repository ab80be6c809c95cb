//! Text and slices: a C string by its address, all others by address and length.
//!
//! Text, and bytes, are one value in this project's own D: `args[n]` of the address is a `string` of just that length. That is
//! said by what D is to see of both: a `string`, and behind it a `size_t` that is given as one. On FreeBSD and illumos it is not
//! said: their D would want a string that ends with a NUL.
//!
//! A C string stays the `char *` that C's providers have: it may be NULL, and programs in D look at its characters.

use core::ffi::CStr;
use core::ptr::null;

use super::pointers::elements;
use super::{ArgType, Argument, CType, Value};
use crate::name::TypeName;

const CHARS: ArgType = ArgType::native(TypeName::new("char *"));
const LENGTH: ArgType = ArgType::native(TypeName::new("size_t"));

/// The address of text that was made for D, and ends with a NUL.
pub(super) const MADE: ArgType = as_string(CHARS);

/// Address and length of text.
const TEXT: &[ArgType] = &as_text(CHARS);

/// Address and length of several of a type, of which bytes are text.
const fn slice<T: CType>() -> &'static [ArgType] {
    const {
        let address = ArgType::native(elements::<T>());
        &if T::IS_BYTE { as_text(address) } else { [address, LENGTH] }
    }
}

/// An address and its length, which are one value for D where it knows of such.
const fn as_text(address: ArgType) -> [ArgType; 2] {
    let string = as_string(address);
    [string, if string.translated.is_some() { LENGTH.translated_to(LENGTH.native) } else { LENGTH }]
}

/// An address that is a string for this project's own D.
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
    ($([$($generics:tt)*] $rust:ty, $words:ty, |$value:ident| $of:expr;)*) => {$(
        impl<$($generics)*> Value for $rust {
            type Words = $words;

            #[inline(always)]
            fn words(&self) -> $words {
                let $value = self;
                $of
            }
        }
    )*};
}

/// Address and length, in elements.
#[inline(always)]
fn extent<T>(slice: &[T]) -> [u64; 2] {
    // Exposed, because the framework or a program in D makes a pointer of it again.
    [slice.as_ptr().expose_provenance() as u64, slice.len() as u64]
}

#[inline(always)]
fn address(text: Option<&CStr>) -> [u64; 1] {
    [text.map_or(null(), CStr::as_ptr).expose_provenance() as u64]
}

values! {
    [] &CStr, [u64; 1], |text| address(Some(text));
    [] Option<&CStr>, [u64; 1], |text| address(*text);
    [] &str, [u64; 2], |text| extent(text.as_bytes());
    [] &mut str, [u64; 2], |text| extent(text.as_bytes());
    [] Option<&str>, [u64; 2], |text| text.map_or([0; 2], |text| extent(text.as_bytes()));
    [T] &[T], [u64; 2], |slice| extent(slice);
    [T] &mut [T], [u64; 2], |slice| extent(slice);
    [T] Option<&[T]>, [u64; 2], |slice| slice.map_or([0; 2], extent);
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
