//! Text and slices: a C string by its address, all others by address and length.

use core::ffi::CStr;
use core::ptr::null;

use super::pointers::elements;
use super::{ArgType, Argument, CType, Value};
use crate::name::TypeName;

const CHARS: ArgType = ArgType::native(TypeName::new("char *"));
const LENGTH: ArgType = ArgType::native(TypeName::new("size_t"));

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
    // Exposed: somebody else makes a pointer of it again.
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
    [] &str: &[CHARS, LENGTH];
    [] &mut str: &[CHARS, LENGTH];
    [] Option<&str>: &[CHARS, LENGTH];
    [T: CType] &[T]: &[ArgType::native(elements::<T>()), LENGTH];
    [T: CType] &mut [T]: &[ArgType::native(elements::<T>()), LENGTH];
    [T: CType] Option<&[T]>: &[ArgType::native(elements::<T>()), LENGTH];
}
