//! Thin pointers and references: one word, the address.
//!
//! Every thin pointer can be passed. Its type in D is the C name of its target, or the type in the declaration of the
//! probe.

use core::ptr::{NonNull, from_ref, null};

use super::borrow::First;
use super::{ArgType, Argument, Borrow, CType, Value};
use crate::name::TypeName;

macro_rules! values {
    ($([$($generics:tt)*] $rust:ty, $first:expr, |$value:ident| $pointer:expr;)*) => {$(
        impl<$($generics)*> Value for $rust {
            type Words = [u64; 1];
            const BORROW: Borrow<Self> = Borrow::new($first, 1);

            #[inline(always)]
            fn words(&self) -> [u64; 1] {
                let $value = self;
                // The provenance is exposed, because the framework or a D program turns the address back into a
                // pointer.
                [$pointer.expose_provenance() as u64]
            }
        }
    )*};
}

/// A reference to a type without a size refers to no memory.
const fn address_of<T>() -> First {
    if size_of::<T>() == 0 { First::Number } else { First::Address }
}

values! {
    [T] *const T, First::Number, |pointer| *pointer;
    [T] *mut T, First::Number, |pointer| *pointer;
    [T] NonNull<T>, First::Number, |pointer| pointer.as_ptr();
    [T] Option<NonNull<T>>, First::Number, |pointer| pointer.map_or(null(), |pointer| pointer.as_ptr().cast_const());
    [T] &T, address_of::<T>(), |place| from_ref::<T>(*place);
    [T] &mut T, address_of::<T>(), |place| from_ref::<T>(&**place);
    [T] Option<&T>, address_of::<T>(), |place| place.map_or(null(), from_ref::<T>);
    [T] Option<&mut T>, address_of::<T>(), |place| place.as_deref().map_or(null(), from_ref::<T>);
}

macro_rules! arguments {
    ($([$($generics:tt)*] $rust:ty, $name:expr;)*) => {$(
        impl<$($generics)*> Argument for $rust {
            const TYPES: &'static [ArgType] = &[ArgType::native($name)];
        }
    )*};
}

arguments! {
    [T: CType] *const T, T::NAME.pointer();
    [T: CType] *mut T, T::NAME.pointer();
    [T: CType] NonNull<T>, T::NAME.pointer();
    [T: CType] Option<NonNull<T>>, T::NAME.pointer();
    [T: CType] &T, T::NAME.pointer();
    [T: CType] &mut T, T::NAME.pointer();
    [T: CType] Option<&T>, T::NAME.pointer();
    [T: CType] Option<&mut T>, T::NAME.pointer();
    [T: CType, const LENGTH: usize] &[T; LENGTH], elements::<T>();
    [T: CType, const LENGTH: usize] &mut [T; LENGTH], elements::<T>();
    [T: CType, const LENGTH: usize] Option<&[T; LENGTH]>, elements::<T>();
    [T: CType, const LENGTH: usize] *const [T; LENGTH], elements::<T>();
    [T: CType, const LENGTH: usize] *mut [T; LENGTH], elements::<T>();
}

/// The type of the address of the first element.
pub(super) const fn elements<T: CType>() -> TypeName {
    T::VALUE.pointer()
}
