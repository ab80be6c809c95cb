//! The layout of structs that consumers look into, for D.
//!
//! D lays structs out by C's rules and knows nothing of Rust's types. So `#[derive(CType)]` leaves a description of
//! its struct in a section, from the compiler's own `offset_of!` and `size_of`. In modules of FreeBSD's and illumos's that is
//! `.sdt_types`, which is not loaded; `cargo xtask dlib` makes a D library of it. Everywhere else it is `sdt_types`, which is
//! part of the image: a host of `sdt-framework` hands it to consumers ([`declared`](crate::declared)).
//!
//! The section is text: lines of words with tabs between them, and NULs anywhere, which mean nothing.
//!
//! ```text
//! provider  NAME
//! probe     PROVIDER    NAME
//! argument  NAME        WORDS   TYPE       TYPE
//! struct    C_NAME      SIZE    ALIGNMENT
//! union     C_NAME      SIZE    ALIGNMENT
//! field     C_NAME      OFFSET  SIZE       DIMENSIONS  ELEMENT_TYPE
//! enum      C_NAME
//! constant  C_NAME      VALUE
//! text      LINE_OF_D
//! ```
//!
//! A struct without fields is one that D need not look into: its size is known. A constant belongs to the enum above it. A
//! field belongs to the struct or union above it. Its dimensions are three numbers with blanks between them, the outermost
//! first, and 0 behind the last. Lines of D are what [`sdt_translator!`](crate::sdt_translator) says. An argument belongs to the
//! probe above it, and occupies one or two of D's arguments (words). Its C types follow only in modules of FreeBSD and illumos: a
//! framework in the image has them in the probe's record.

use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;
#[cfg(target_has_atomic = "8")]
use core::sync::atomic;

use crate::arg::CType;
use crate::name::TypeName;

/// Most dimensions of an array in a described struct.
const DIMENSIONS: usize = 3;

/// A type that a field of a described struct can have: one that has a [C name](CType), or an array of such.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no C type, so D cannot look into a struct with it",
    label = "no type of C's",
    note = "fields are integers, `bool`, atomics, thin pointers and references, arrays of up to three dimensions, and \
            what derives `CType`, of enums those with `#[repr(u32)]` or the like; where D need not look, take an array of bytes"
)]
pub trait CField {
    /// The type in front of the field's name.
    const TYPE: FieldType;

    /// The same, as an element of an array.
    const ELEMENT: FieldType = Self::TYPE;
}

/// The C type of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldType {
    /// The type of one element.
    name: TypeName,
    /// Bytes of all elements.
    size: usize,
    /// How many elements there are, the outermost first; 0 behind the last.
    dimensions: [usize; DIMENSIONS],
}

impl FieldType {
    const fn of<T>(name: TypeName) -> Self {
        Self::named(name, size_of::<T>())
    }

    /// A type that has a name in C only.
    #[doc(hidden)]
    pub const fn named(name: TypeName, size: usize) -> Self {
        Self { name, size, dimensions: [0; DIMENSIONS] }
    }

    /// An array of this.
    const fn array<T>(self, length: usize) -> Self {
        let [first, second, third] = self.dimensions;
        assert!(third == 0, "an array in a struct that D looks into has at most three dimensions");
        Self { name: self.name, size: size_of::<T>(), dimensions: [length, first, second] }
    }

    /// Bytes of all elements.
    #[doc(hidden)]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The number of elements in one dimension.
    #[doc(hidden)]
    pub const fn dimension(&self, index: usize) -> usize {
        self.dimensions[index]
    }

    /// Eight letters of the element type's name, as they lie in memory.
    #[doc(hidden)]
    pub const fn letters(&self, index: usize) -> u64 {
        self.name.letters(index)
    }
}

impl<T: CType> CField for T {
    const TYPE: FieldType = FieldType::of::<T>(T::VALUE);
    // Of bytes that are C's `char`, D makes a string.
    const ELEMENT: FieldType = FieldType::of::<T>(T::NAME);
}

impl<T: CField, const LENGTH: usize> CField for [T; LENGTH] {
    const TYPE: FieldType = T::ELEMENT.array::<Self>(LENGTH);
}

/// The largest of some sizes or alignments.
#[doc(hidden)]
pub const fn largest(of: &[usize]) -> usize {
    let (mut largest, mut at) = (0, 0);
    while at < of.len() {
        if of[at] > largest {
            largest = of[at];
        }
        at += 1;
    }
    largest
}

/// The integer that C's compiler makes of an enum of this size in bytes, some of whose constants are negative, or none: `int`,
/// unless the target's enums are short or a constant does not fit.
///
/// # Panics
/// There is no such integer.
#[doc(hidden)]
pub const fn c_enum(size: usize, is_negative: bool) -> TypeName {
    match (size, is_negative) {
        (1, true) => i8::VALUE,
        (1, false) => u8::VALUE,
        (2, true) => i16::VALUE,
        (2, false) => u16::VALUE,
        (4, _) => i32::VALUE,
        (8, _) => i64::VALUE,
        _ => panic!("no integer of C's is as large as this enum"),
    }
}

/// What is laid out as another type.
macro_rules! same_as {
    ($([$($generics:tt)*] $rust:ty: $as:ty;)*) => {$(
        impl<$($generics)*> CType for $rust {
            const NAME: TypeName = <$as as CType>::NAME;
            const VALUE: TypeName = <$as as CType>::VALUE;
        }
    )*};
}

same_as! {
    [T: CType] Cell<T>: T;
    [T: CType] UnsafeCell<T>: T;
    [T: CType] &T: *const T;
    [T: CType] Option<&T>: *const T;
    [T: CType] NonNull<T>: *mut T;
    [T: CType] Option<NonNull<T>>: *mut T;
}

macro_rules! atomics {
    ($($bits:literal: $([$($generics:tt)*] $rust:ty: $as:ty),*;)*) => {$(
        #[cfg(target_has_atomic = $bits)]
        same_as! { $([$($generics)*] $rust: $as;)* }
    )*};
}

atomics! {
    "8": [] atomic::AtomicU8: u8, [] atomic::AtomicI8: i8, [] atomic::AtomicBool: bool;
    "16": [] atomic::AtomicU16: u16, [] atomic::AtomicI16: i16;
    "32": [] atomic::AtomicU32: u32, [] atomic::AtomicI32: i32;
    "64": [] atomic::AtomicU64: u64, [] atomic::AtomicI64: i64;
    "ptr": [] atomic::AtomicUsize: usize, [] atomic::AtomicIsize: isize, [T: CType] atomic::AtomicPtr<T>: *mut T;
}

/// Begins a piece of the description: of the image, where it is for a framework in it.
#[cfg(all(sdt_route = "provider", not(any(target_os = "freebsd", target_os = "illumos"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_types_section {
    () => {
        ".pushsection sdt_types, \"aR\", %progbits"
    };
}

/// Begins a piece of the description: where the kernel has no use for it, it is not loaded.
#[cfg(not(all(sdt_route = "provider", not(any(target_os = "freebsd", target_os = "illumos")))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_types_section {
    () => {
        ".pushsection .sdt_types, \"\", %progbits"
    };
}

/// What an image declares for D.
///
/// | arm | |
/// |---|---|
/// | `@text` | lines of D, as the assembler's directives |
/// | `@provider` | a provider's name |
/// | `@probe` | the names of a probe's arguments; `$types` is the constant with their types |
/// | `@enum` | the names of an enum's constants |
/// | `@struct` | a `"struct"` or `"union"`; `$fields` is an array of its fields' [`FieldType`]s |
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_types {
    (@text $($line:literal),*) => {
        ::core::arch::global_asm!(
            $crate::__sdt_types_section!(),
            $($line,)*
            ".popsection",
            options(raw),
        );
    };
    (@provider $name:literal) => {
        ::core::arch::global_asm!(
            $crate::__sdt_types_section!(),
            ::core::concat!(".ascii \"provider\\t", $name, "\\n\""),
            ".popsection",
        );
    };
    (@probe $provider:literal, $name:literal, $types:ident, [$($argument:tt)*]) => {
        $crate::__sdt_probe_names!($provider, $name, $types, [$($argument)*]);
    };
    (@enum $c_name:literal, [$($value:tt $name:literal),* $(,)?]) => {
        $(const _: () = $crate::layout::check_constant($value as ::core::primitive::i128);)*

        ::core::arch::global_asm!(
            $crate::__sdt_types_section!(),
            ::core::concat!(".ascii \"enum\\t", $c_name, "\\n\""),
            $(::core::concat!(".ascii \"constant\\t", $name, "\\t{}\\n\""),)*
            ".popsection",
            $(const $value as ::core::primitive::i64,)*
        );
    };
    (@struct $kind:literal, $c_name:literal, $size:expr, $align:expr, $fields:ident, [$($index:literal $offset:tt $field_name:literal),* $(,)?]) => {
        ::core::arch::global_asm!(
            $crate::__sdt_types_section!(),
            ::core::concat!(".ascii \"", $kind, "\\t", $c_name, "\\t{}\\t{}\\n\""),
            $(
                ::core::concat!(".ascii \"field\\t", $field_name, "\\t{}\\t{}\\t{} {} {}\\t\""),
                ".8byte {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
                ".ascii \"\\n\"",
            )*
            ".popsection",
            const $size,
            const $align,
            $(
                const $offset,
                const $fields[$index].size(),
                const $fields[$index].dimension(0),
                const $fields[$index].dimension(1),
                const $fields[$index].dimension(2),
                const $fields[$index].letters(0),
                const $fields[$index].letters(1),
                const $fields[$index].letters(2),
                const $fields[$index].letters(3),
                const $fields[$index].letters(4),
                const $fields[$index].letters(5),
                const $fields[$index].letters(6),
                const $fields[$index].letters(7),
                const $fields[$index].letters(8),
                const $fields[$index].letters(9),
                const $fields[$index].letters(10),
                const $fields[$index].letters(11),
                const $fields[$index].letters(12),
                const $fields[$index].letters(13),
                const $fields[$index].letters(14),
                const $fields[$index].letters(15),
            )*
        );
    };
}

/// The names of a probe's arguments, where the records have their types.
#[cfg(all(
    not(sdt_off),
    sdt_route = "provider",
    not(any(target_os = "freebsd", target_os = "illumos"))
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_probe_names {
    ($provider:literal, $name:literal, $types:ident, [$($index:literal $argument:literal),*]) => {
        ::core::arch::global_asm!(
            $crate::__sdt_types_section!(),
            ::core::concat!(".ascii \"probe\\t", $provider, "\\t", $name, "\\n\""),
            $(::core::concat!(".ascii \"argument\\t", $argument, "\\t{}\\n\""),)*
            ".popsection",
            $(const $types[$index].len(),)*
        );
    };
}

/// The names and types of a probe's arguments.
#[cfg(all(
    not(sdt_off),
    not(all(sdt_route = "provider", not(any(target_os = "freebsd", target_os = "illumos"))))
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_probe_names {
    ($provider:literal, $name:literal, $types:ident, [$($index:literal $argument:literal),*]) => {
        ::core::arch::global_asm!(
            $crate::__sdt_types_section!(),
            ::core::concat!(".ascii \"probe\\t", $provider, "\\t", $name, "\\n\""),
            $(
                ::core::concat!(".ascii \"argument\\t", $argument, "\\t{}\\t\""),
                ".8byte {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
                ".ascii \"\\t\"",
                ".8byte {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
                ".ascii \"\\n\"",
            )*
            ".popsection",
            $(
                const $types[$index].len(),
                const $crate::layout::type_letters($types[$index], 0, 0),
                const $crate::layout::type_letters($types[$index], 0, 1),
                const $crate::layout::type_letters($types[$index], 0, 2),
                const $crate::layout::type_letters($types[$index], 0, 3),
                const $crate::layout::type_letters($types[$index], 0, 4),
                const $crate::layout::type_letters($types[$index], 0, 5),
                const $crate::layout::type_letters($types[$index], 0, 6),
                const $crate::layout::type_letters($types[$index], 0, 7),
                const $crate::layout::type_letters($types[$index], 0, 8),
                const $crate::layout::type_letters($types[$index], 0, 9),
                const $crate::layout::type_letters($types[$index], 0, 10),
                const $crate::layout::type_letters($types[$index], 0, 11),
                const $crate::layout::type_letters($types[$index], 0, 12),
                const $crate::layout::type_letters($types[$index], 0, 13),
                const $crate::layout::type_letters($types[$index], 0, 14),
                const $crate::layout::type_letters($types[$index], 0, 15),
                const $crate::layout::type_letters($types[$index], 1, 0),
                const $crate::layout::type_letters($types[$index], 1, 1),
                const $crate::layout::type_letters($types[$index], 1, 2),
                const $crate::layout::type_letters($types[$index], 1, 3),
                const $crate::layout::type_letters($types[$index], 1, 4),
                const $crate::layout::type_letters($types[$index], 1, 5),
                const $crate::layout::type_letters($types[$index], 1, 6),
                const $crate::layout::type_letters($types[$index], 1, 7),
                const $crate::layout::type_letters($types[$index], 1, 8),
                const $crate::layout::type_letters($types[$index], 1, 9),
                const $crate::layout::type_letters($types[$index], 1, 10),
                const $crate::layout::type_letters($types[$index], 1, 11),
                const $crate::layout::type_letters($types[$index], 1, 12),
                const $crate::layout::type_letters($types[$index], 1, 13),
                const $crate::layout::type_letters($types[$index], 1, 14),
                const $crate::layout::type_letters($types[$index], 1, 15),
            )*
        );
    };
}

/// With feature `off` there is no description; constants and fields are checked.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_types {
    (@text $($line:literal),*) => {};
    (@provider $name:literal) => {};
    (@probe $provider:literal, $name:literal, $types:ident, [$($argument:tt)*]) => {};
    (@enum $c_name:literal, [$($value:tt $name:literal),* $(,)?]) => {
        $(const _: () = $crate::layout::check_constant($value as ::core::primitive::i128);)*
    };
    (@struct $kind:literal, $c_name:literal, $size:expr, $align:expr, $fields:ident, [$($index:literal $offset:tt $field_name:literal),* $(,)?]) => {
        const _: &[$crate::layout::FieldType] = &$fields;
    };
}

/// Returns eight letters of the name of an argument's first or second native type, as they lie in memory; 0 if it has one type.
#[cfg(not(all(sdt_route = "provider", not(any(target_os = "freebsd", target_os = "illumos")))))]
#[doc(hidden)]
pub const fn type_letters(types: &[crate::arg::ArgType], word: usize, index: usize) -> u64 {
    if word < types.len() { types[word].native.letters(index) } else { 0 }
}

/// Ends the compilation if a constant is none that C's enums can have, which are of type `int`.
#[doc(hidden)]
pub const fn check_constant(value: i128) {
    assert!(
        value >= i32::MIN as i128 && value <= i32::MAX as i128,
        "a constant of an enum is an `int` for D: this one is not within its bounds"
    );
}
