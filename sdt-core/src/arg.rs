//! What a probe can carry: [`Argument`], and the C type each argument has for D.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::{NonNull, from_ref, null};

use crate::name::TypeName;

/// The type of one argument, for `args[]` and `dtrace -l -v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ArgType {
    /// The C type of the word the probe carries.
    pub native: TypeName,
    /// The C type D makes of it with a translator, where it is another one.
    pub translated: Option<TypeName>,
}

impl ArgType {
    /// A type that is not translated.
    pub const fn native(native: TypeName) -> Self {
        Self { native, translated: None }
    }

    /// This type, of which D makes `translated` with a translator.
    #[must_use]
    pub const fn translated_to(self, translated: TypeName) -> Self {
        Self { native: self.native, translated: Some(translated) }
    }
}

/// The type of a declared probe's argument.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_arg_type {
    ($type:ty $(=> $translated:literal)?) => {
        <$type as $crate::arg::Argument>::TYPE
            $(.translated_to($crate::name::TypeName::new($translated)))?
    };
}

/// A value that a probe can carry in one 64-bit argument.
///
/// When a site fires, each argument expression is evaluated once, and handed to the framework as one
/// [word](Self::word). A number is its own word. What does not fit into one hands over the address of its bytes: the
/// value stays where it is, on the stack of the firing function, until recording has ended, so a consumer may follow
/// the pointer while it records, and only then.
///
/// Implementations run in probe context: anywhere, with interrupts off and any lock held. They must
/// not block, allocate or fire probes.
#[diagnostic::on_unimplemented(
    message = "a probe cannot carry `{Self}`",
    label = "no probe argument",
    note = "integers of up to 64 bits, `bool`, pointers, `&CStr` and references to types that \
            implement `CType` can be arguments; a `&str` is not NUL-terminated, as D needs it"
)]
pub trait Argument {
    /// The argument's C type.
    const TYPE: ArgType;

    /// The word the framework gets: sign-extended for signed integers, zero-extended for all else. An address that a
    /// consumer follows has its provenance [exposed](https://doc.rust-lang.org/core/primitive.pointer.html#method.expose_provenance).
    fn word(&self) -> u64;
}

/// A type that has a C name, so that references and pointers to it can be arguments.
///
/// Derived for a struct that consumers look into, which also [describes](crate::layout) it for D:
///
/// ```
/// use sdt_core::arg::CType;
///
/// #[derive(CType)]
/// #[repr(C)]
/// struct Packet {
///     len: u32,
///     proto: u16,
/// }
///
/// # fn main() {
/// assert_eq!(Packet::NAME.as_str(), "struct packet");
/// # }
/// ```
///
/// Implemented for one that D knows already, of the kernel's:
///
/// ```
/// use sdt_core::{arg::CType, name::TypeName};
///
/// struct Mbuf;
///
/// impl CType for Mbuf {
///     const NAME: TypeName = TypeName::new("struct mbuf");
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no C name, so a probe cannot carry a reference to it",
    label = "no probe argument",
    note = "derive `sdt_core::arg::CType` for a `#[repr(C)]` struct; a `&str` is not \
            NUL-terminated, as D needs it: pass a `&CStr`, or its pointer and length"
)]
pub trait CType {
    /// The name D knows the type by.
    const NAME: TypeName;

    /// The same for a single value in a struct: other than `NAME` for bytes only, which are `char` by that.
    #[doc(hidden)]
    const VALUE: TypeName = Self::NAME;
}

pub use sdt_macros::CType;

macro_rules! integers {
    ($($rust:ty: $c:literal, $extended:ty;)*) => {$(
        impl Argument for $rust {
            const TYPE: ArgType = ArgType::native(TypeName::new($c));
            #[inline(always)]
            fn word(&self) -> u64 {
                // Through the 64-bit integer of the same signedness, so that the sign is kept.
                <$extended>::from(*self) as u64
            }
        }
    )*};
}

integers! {
    u8: "uint8_t", u64;
    u16: "uint16_t", u64;
    u32: "uint32_t", u64;
    u64: "uint64_t", u64;
    i8: "int8_t", i64;
    i16: "int16_t", i64;
    i32: "int", i64;
    i64: "int64_t", i64;
    bool: "_Bool", u64;
}

/// Kernels with 64-bit words only: `usize` is a word.
macro_rules! words {
    ($($rust:ty: $c:literal;)*) => {$(
        impl Argument for $rust {
            const TYPE: ArgType = ArgType::native(TypeName::new($c));
            #[inline(always)]
            fn word(&self) -> u64 {
                *self as u64
            }
        }
    )*};
}

words! {
    usize: "size_t";
    isize: "ssize_t";
}

macro_rules! c_names {
    ($($rust:ty: $c:literal;)*) => {$(
        impl CType for $rust {
            const NAME: TypeName = TypeName::new($c);
        }
    )*};
}

c_names! {
    c_void: "void";
    u16: "uint16_t";
    u32: "uint32_t";
    u64: "uint64_t";
    i16: "int16_t";
    i32: "int";
    i64: "int64_t";
    usize: "size_t";
    isize: "ssize_t";
    bool: "_Bool";
}

/// `c_char` is `i8` or `u8`, by architecture; whichever it is, a pointer to it is C's `char *`.
const fn byte_name(is_char: bool, otherwise: &str) -> TypeName {
    TypeName::new(if is_char { "char" } else { otherwise })
}

impl CType for u8 {
    const NAME: TypeName = byte_name(c_char::MIN == 0, "uint8_t");
    const VALUE: TypeName = TypeName::new("uint8_t");
}

impl CType for i8 {
    const NAME: TypeName = byte_name(c_char::MIN != 0, "int8_t");
    const VALUE: TypeName = TypeName::new("int8_t");
}

impl<T: CType> CType for *const T {
    const NAME: TypeName = T::NAME.pointer();
}

impl<T: CType> CType for *mut T {
    const NAME: TypeName = T::NAME.pointer();
}

macro_rules! pointers {
    ($([$($generics:tt)*] $rust:ty, $name:expr, $value:ident => $pointer:expr;)*) => {$(
        impl<$($generics)*> Argument for $rust {
            const TYPE: ArgType = ArgType::native($name);

            #[inline(always)]
            fn word(&self) -> u64 {
                let $value = *self;
                // Exposed: somebody else makes a pointer of it again.
                $pointer.expose_provenance() as u64
            }
        }
    )*};
}

pointers! {
    [T: CType] *const T, T::NAME.pointer(), pointer => pointer;
    [T: CType] *mut T, T::NAME.pointer(), pointer => pointer;
    [T: CType] NonNull<T>, T::NAME.pointer(), pointer => pointer.as_ptr();
    [T: CType + ?Sized] &T, T::NAME.pointer(), place => from_ref::<T>(place).cast::<()>();
    [T: CType] Option<&T>, T::NAME.pointer(), place => place.map_or(null(), from_ref);
    [] &CStr, TypeName::new("char *"), text => text.as_ptr();
    [] Option<&CStr>, TypeName::new("char *"), text => text.map_or(null(), CStr::as_ptr);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word<A: Argument>(value: A) -> u64 {
        value.word()
    }

    #[test]
    fn signed_values_are_sign_extended_and_others_not() {
        assert_eq!(word(-1i8), u64::MAX);
        assert_eq!(word(-2i32), u64::MAX - 1);
        assert_eq!(word(0x80u8), 0x80);
        assert_eq!(word(u32::MAX), 0xffff_ffff);
        assert_eq!(word(true), 1);
    }

    #[test]
    fn references_are_addresses() {
        let value = &7u32;
        assert_eq!(word(value), core::ptr::from_ref(value) as u64);
        assert_eq!(word(c"x"), c"x".as_ptr() as u64);
        assert_eq!(word(None::<&u32>), 0);
    }

    #[test]
    fn types_have_their_c_names() {
        assert_eq!(<&CStr as Argument>::TYPE.native.as_str(), "char *");
        assert_eq!(<*const c_char as Argument>::TYPE.native.as_str(), "char *");
        assert_eq!(<*mut *const c_void as Argument>::TYPE.native.as_str(), "void **");
        assert_eq!(<i32 as Argument>::TYPE.native.as_str(), "int");
    }
}
