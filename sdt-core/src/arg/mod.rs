//! The types of probe arguments: [`Argument`], and the C type of each argument in D.
//!
//! | a Rust type | D's arguments | |
//! |---|---|---|
//! | integers of up to 64 bits, `bool` | one: `int`, `uint64_t`, ... | `NonZero` like the integer in it |
//! | `char` | one: `uint32_t` | `printf("%wc", (int)args[0])` shows it |
//! | `u128`, `i128` | two: low word, high word | D has no integer of that size |
//! | pointers, references, `NonNull` to a type with a [C name](CType) | one: `struct proc *` | `&[T; N]` is a `T *` |
//! | `&CStr` | one: `char *` | a string by `stringof(args[0])` |
//! | `&str`, `&[u8]` | two: address and length | a [`string`](#text) with a `?` for each zero byte, `size_t`; on FreeBSD and illumos `char *`, `size_t` |
//! | `&[T]` | two: address and length, in elements | `T *`, `size_t` |
//! | `Option` of a reference, a pointer or text | as without `Option` | 0 means `None` |
//! | `Option` of a number, of `bool`, of `char` | two: the value, and whether there is one | `int`, `_Bool` |
//! | newtypes, enums without data | one, by `#[derive(Argument)]` | `enum link_state`, with the names of its constants |
//! | [`Shown`] | one: a `string`; on FreeBSD and illumos `char *` | the text that `Display` or `Debug` writes, formatted if the probe is enabled |
#![cfg_attr(
    feature = "serde",
    doc = "| [`Json`] | one, as `Shown` | a value as JSON, serialised if the probe is enabled |"
)]
//!
//! An argument of a declared provider has its name in D, too: `args.count` for `count: u32`, `args.tries.is_some` for an `Option`,
//! `args.id.low` and `args.id.high` for a `u128`, `args.sizes[i]` and `args.sizes.len` for a slice. Reading an element outside a
//! slice is a fault.
//!
//! A type with two arguments in D counts as two. A probe has at most ten with `sdt-framework`, on the provider route,
//! and with illumos's own sdt, six with FreeBSD's own sdt, and five with that of FreeBSD before 15.
//!
//! # Text
//!
//! In D on `sdt-framework`, text and bytes are one value, a `string`, followed by its length. For
//! `fn write(path: &str, data: &[u8])`, `args.path` and `args.data` are strings, and `args.path.len` and `args.data.len` are their
//! lengths. By position, these are `args[0]`, `args[2]`, `args[1]` and `args[3]`.
//!
//! ```text
//! fs:::write { printf("%s", args.path); }
//! fs:::write /args.path == "/etc/passwd"/ { printf("%d bytes\n", args.path.len); }
//! fs:::write { @[args.path] = count(); }
//! ```
//!
//! A `&CStr` is an address in D, as in C: `stringof(args[0])` is its text. `args[0]` alone, as a key or in `trace`, is
//! a number.
//!
//! D reads no byte beyond the text. A string in D ends at its first NUL, so each NUL inside the text is replaced by a
//! `?`. Text longer than option `strsize` or 4,095 bytes is cut; `args[1]` is its full length. `tracemem(arg2, 64,
//! arg3)` shows unchanged bytes. `arg0` and `arg1` are address and length.
//!
//! ## On FreeBSD and illumos
//!
//! The library that `cargo sdt dlib` makes of a module declares `fs__write__path` for such text. Without the library, a program
//! must pass the length, because a `&str` does not end with a NUL:
//!
//! ```text
//! fs:::write { printf("%s", substr(stringof((char *)arg0), 0, arg1)); }
//! fs:::write { this->path = (char *)alloca(arg1 + 1); bcopy((void *)arg0, this->path, arg1);
//!              this->path[arg1] = 0; @[stringof(this->path)] = count(); }
//! fs:::write { printf("%s", memstr((void *)arg0, ' ', arg1 + 1)); }
//! fs:::write { tracemem(arg2, 64, arg3); }
//! ```
//!
//! The first program reads up to the next NUL or `strsize` bytes before it cuts. If the text is at the end of mapped
//! memory, this faults, and D reports the fault and continues. The other programs read no byte beyond the text. The
//! first two stop at a NUL inside the text; the third, which exists on FreeBSD only, replaces each NUL by a blank.

use core::ffi::{c_char, c_void};

use crate::name::TypeName;

mod borrow;
#[cfg(feature = "serde")]
mod json;
mod numbers;
mod pointers;
mod shown;
mod text;
mod tuple;

pub use borrow::Borrows;
#[doc(hidden)]
pub use borrow::{ArgumentBorrow, Borrow};
#[cfg(feature = "serde")]
pub use json::{Json, json};
#[doc(hidden)]
pub use shown::Made;
pub use shown::{Shown, show, show_debug};
#[doc(hidden)]
pub use tuple::{Carried, CarriedBy, Tuple};

/// The type of one argument, for `args[]` and `dtrace -l -v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ArgType {
    /// The C type of the word that the probe passes.
    pub native: TypeName,
    /// The C type to which D translates it, if it has a translator.
    pub translated: Option<TypeName>,
}

impl ArgType {
    /// Returns a type that is not translated.
    pub const fn native(native: TypeName) -> Self {
        Self { native, translated: None }
    }

    /// Returns this type with a translator to `translated`.
    #[must_use]
    pub const fn translated_to(self, translated: TypeName) -> Self {
        Self { native: self.native, translated: Some(translated) }
    }
}

/// Returns the types of an argument, with a translator for the first word.
#[doc(hidden)]
pub const fn translated<const COUNT: usize>(
    types: &[ArgType],
    translated: TypeName,
) -> [ArgType; COUNT] {
    let mut all = [types[0].translated_to(translated); COUNT];
    let mut i = 1;
    while i < COUNT {
        all[i] = types[i];
        i += 1;
    }
    all
}

/// The types of a probe's arguments in order. Each argument has one or two.
pub type ArgTypes = &'static [&'static [ArgType]];

/// The arguments of a probe.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Args {
    /// Their types.
    pub types: ArgTypes,
    /// The words that are addresses of borrowed memory.
    pub borrows: Borrows,
}

/// Returns the number of arguments as the framework counts them.
#[doc(hidden)]
pub const fn count(types: ArgTypes) -> usize {
    let (mut count, mut i) = (0, 0);
    while i < types.len() {
        count += types[i].len();
        i += 1;
    }
    count
}

/// Returns the number of words of a value of type `T`.
#[doc(hidden)]
pub const fn words_of<T: Value>() -> usize {
    <T::Words as Words>::COUNT
}

/// Compiles if a value of type `T`, which has an explicit C type, is one word.
#[doc(hidden)]
pub const fn is_one_word<T: Value<Words = [u64; 1]>>() {}

/// The types of a declared probe's argument.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_arg_types {
    ($type:ty) => {
        <$type as $crate::arg::Argument>::TYPES
    };
    ($type:ty => $translated:literal) => {
        const {
            &$crate::arg::translated::<{ $crate::arg::words_of::<$type>() }>(
                <$type as $crate::arg::Argument>::TYPES,
                $crate::name::TypeName::new($translated),
            )
        }
    };
    ($type:ty as $native:literal $(=> $translated:literal)?) => {{
        $crate::arg::is_one_word::<$type>();
        const {
            &[$crate::arg::ArgType::native($crate::name::TypeName::new($native))
                $(.translated_to($crate::name::TypeName::new($translated)))?]
        }
    }};
}

/// A value that a framework can record: one 64-bit word, or two.
///
/// [`Argument`] or the declaration of the probe (`fn start(bio: *const Bio as "struct bio *")`) defines the type of the
/// value in D.
///
/// When a site fires, it evaluates each argument expression once and passes its [words](Self::words). A number is its
/// own word. A larger value passes the address of its bytes: the value stays on the stack of the firing function until
/// recording has ended, so a consumer may follow the pointer only while it records.
///
/// Implementations run in probe context: anywhere, possibly with interrupts off and locks held. They must not block,
/// allocate or fire probes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a probe",
    label = "not an argument of a probe",
    note = "integers, `bool`, `char`, thin pointers and references, `&CStr`, `&str`, slices and \
            types that derive `Argument` can be arguments; `show(&value)` passes the text that \
            `Display` writes"
)]
pub trait Value {
    /// `[u64; 1]`, or `[u64; 2]`.
    type Words: Words;

    /// Whether the words are addresses of memory that stays mapped while the value exists.
    #[doc(hidden)]
    const BORROW: Borrow<Self> = Borrow::new(borrow::First::Number, <Self::Words as Words>::COUNT);

    /// Returns the words for the framework: sign-extended for signed integers, zero-extended for all other types. An
    /// address that a consumer follows has its provenance
    /// [exposed](https://doc.rust-lang.org/core/primitive.pointer.html#method.expose_provenance).
    fn words(&self) -> Self::Words;
}

/// One word, or two: `[u64; 1]` or `[u64; 2]`.
pub trait Words: Copy + sealed::Sealed {
    /// The number of words.
    const COUNT: usize;

    /// Returns two words: a single word is returned twice.
    #[doc(hidden)]
    fn pair(self) -> [u64; 2];
}

mod sealed {
    /// Prevents implementations of [`Words`](super::Words) for other types.
    pub trait Sealed {}
    impl Sealed for [u64; 1] {}
    impl Sealed for [u64; 2] {}
}

impl Words for [u64; 1] {
    const COUNT: usize = 1;

    #[inline(always)]
    fn pair(self) -> [u64; 2] {
        [self[0]; 2]
    }
}

impl Words for [u64; 2] {
    const COUNT: usize = 2;

    #[inline(always)]
    fn pair(self) -> [u64; 2] {
        self
    }
}

/// A [value](Value) whose type D knows, so that it can be an argument of a probe.
///
/// Derived for newtypes and for enums without data:
///
/// ```
/// use sdt_core::arg::Argument;
///
/// /// In D: `uint16_t`, the type of its field.
/// #[derive(Argument)]
/// struct Port(u16);
///
/// /// For D: `enum link_state`, whose constants are `LINK_STATE_DOWN` and `LINK_STATE_UP`.
/// #[derive(Argument)]
/// #[repr(u8)]
/// enum LinkState {
///     Down,
///     Up,
/// }
///
/// sdt_core::sdt_provider! {
///     net {
///         fn link(port: Port, state: LinkState);
///     }
/// }
///
/// fn main() {
///     sdt_core::sdt_probe!(net::link, Port(443), LinkState::Up);
///     sdt_core::sdt_probe!(net::link, Port(80), LinkState::Down);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a probe",
    label = "not an argument of a probe",
    note = "integers, `bool`, `char`, `&CStr`, `&str`, slices of and references to types that \
            implement `CType`, and types that derive `Argument` can be arguments; `show(&value)` \
            passes the text that `Display` writes; the declaration of a probe can give the C type \
            of a pointer: `bio: *const Bio as \"struct bio *\"`"
)]
pub trait Argument: Value {
    /// The C types of its words, in order: one for each word.
    const TYPES: &'static [ArgType];

    /// The same as [`Value::BORROW`]. The macros use this one, so that an unsuitable type causes only one error.
    #[doc(hidden)]
    const BORROW_OF_ARGUMENT: Borrow<Self> = Self::BORROW;

    /// Returns the words in a type that does not depend on the argument's type.
    #[doc(hidden)]
    #[inline(always)]
    fn carried(&self) -> CarriedBy<Self>
    where
        Self: Sized,
    {
        const {
            assert!(
                Self::TYPES.len() == words_of::<Self>(),
                "the implementation of `Argument` must have one type for each word"
            )
        };
        CarriedBy::new(self)
    }
}

/// A type that has a C name, so that references and pointers to it can be arguments.
///
/// Derive it for a struct that D programs read. This also [describes](crate::layout) the struct for D:
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
/// Implement it for a type of the kernel that D knows already:
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
    message = "`{Self}` has no C name, so a reference to it cannot be an argument of a probe",
    label = "not an argument of a probe",
    note = "derive `sdt_core::arg::CType` for it, or give the C type of the pointer in the \
            declaration of the probe: `bio: *const Bio as \"struct bio *\"`"
)]
pub trait CType {
    /// The name of the type in D.
    const NAME: TypeName;

    /// The name for a single value in a struct. It differs from `NAME` only for bytes, whose `NAME` is `char`.
    #[doc(hidden)]
    const VALUE: TypeName = Self::NAME;

    /// Whether a slice of this type is bytes, which D may show as a string.
    #[doc(hidden)]
    const IS_BYTE: bool = false;
}

pub use sdt_macros::{Argument, CType};

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
    char: "uint32_t";
}

/// Returns the C name of `i8` or `u8`: `char` if this type is `c_char` on the target, otherwise `otherwise`.
const fn byte_name(is_char: bool, otherwise: &str) -> TypeName {
    TypeName::new(if is_char { "char" } else { otherwise })
}

impl CType for u8 {
    const NAME: TypeName = byte_name(c_char::MIN == 0, "uint8_t");
    const VALUE: TypeName = TypeName::new("uint8_t");
    const IS_BYTE: bool = true;
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

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;
    use core::num::NonZero;
    use core::ptr::NonNull;

    fn words<A: Argument>(value: A) -> Vec<u64> {
        let words = value.words().pair();
        assert_eq!(A::TYPES.len(), words_of::<A>());
        words[..words_of::<A>()].to_vec()
    }

    fn types<A: Argument>() -> Vec<&'static str> {
        A::TYPES.iter().map(|of| of.native.as_str()).collect()
    }

    #[test]
    fn signed_values_are_sign_extended_and_others_not() {
        assert_eq!(words(-1i8), [u64::MAX]);
        assert_eq!(words(-2i32), [u64::MAX - 1]);
        assert_eq!(words(0x80u8), [0x80]);
        assert_eq!(words(u32::MAX), [0xffff_ffff]);
        assert_eq!(words(true), [1]);
        assert_eq!(words('ß'), [0xdf]);
        assert_eq!(words(NonZero::new(-3i16)), [u64::MAX - 2]);
        assert_eq!(words(None::<NonZero<u8>>), [0]);
    }

    #[test]
    fn wide_integers_are_two_words_the_low_one_first() {
        assert_eq!(words(-2i128), [u64::MAX - 1, u64::MAX]);
        assert_eq!(words(7u128 << 64 | 5), [5, 7]);
        assert_eq!(types::<u128>(), ["uint64_t", "uint64_t"]);
        assert_eq!(types::<i128>(), ["uint64_t", "int64_t"]);
    }

    #[test]
    fn references_are_addresses() {
        let mut value = 7u32;
        let place = (&raw const value) as u64;
        {
            let shared = &value;
            assert_eq!(words(shared), [place]);
            assert_eq!(words(Some(shared)), [place]);
            assert_eq!(words(NonNull::from(shared)), [place]);
            assert_eq!(words(Some(NonNull::from(shared))), [place]);
        }
        let exclusive = &mut value;
        assert_eq!(words(exclusive), [place]);
        assert_eq!(words(c"x"), [c"x".as_ptr() as u64]);
        assert_eq!(words(None::<&u32>), [0]);
        assert_eq!(words(None::<NonNull<u32>>), [0]);
        let array = [1u16, 2];
        assert_eq!(words(&array), [array.as_ptr() as u64]);
    }

    #[test]
    fn text_and_slices_are_address_and_length() {
        let (text, bytes, numbers) = ("a\0b", &[1u8, 2][..], &[1i64, 2, 3][..]);
        assert_eq!(words(text), [text.as_ptr() as u64, 3]);
        assert_eq!(words(bytes), [bytes.as_ptr() as u64, 2]);
        assert_eq!(words(numbers), [numbers.as_ptr() as u64, 3]);
        assert_eq!(words(Some(text)), [text.as_ptr() as u64, 3]);
        assert_eq!(words(None::<&str>), [0, 0]);
        assert_eq!(words(None::<&[u8]>), [0, 0]);
        assert_eq!(types::<&str>(), ["char *", "size_t"]);
        assert_eq!(types::<&[u8]>(), ["uint8_t *", "size_t"]);
        assert_eq!(types::<&[i64]>(), ["int64_t *", "size_t"]);
    }

    #[test]
    fn what_may_be_missing_says_whether_it_is() {
        assert_eq!(words(Some(-1i32)), [u64::MAX, 1]);
        assert_eq!(words(None::<i32>), [0, 0]);
        assert_eq!(words(Some(false)), [0, 1]);
        assert_eq!(types::<Option<char>>(), ["uint32_t", "_Bool"]);
    }

    #[test]
    fn types_have_their_c_names() {
        assert_eq!(types::<&CStr>(), ["char *"]);
        assert_eq!(types::<*const c_char>(), ["char *"]);
        assert_eq!(types::<*mut *const c_void>(), ["void **"]);
        assert_eq!(types::<i32>(), ["int"]);
        assert_eq!(types::<&[u16; 4]>(), ["uint16_t *"]);
    }

    #[test]
    fn only_the_first_of_two_types_is_translated() {
        let [first, second] = translated(<&str>::TYPES, TypeName::new("string"));
        assert_eq!(first.translated, Some(TypeName::new("string")));
        assert_eq!(second, <&str>::TYPES[1]);
    }
}
