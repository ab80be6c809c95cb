//! The layout of structs, for D programs that read them.
//!
//! D uses the layout rules of C and does not know Rust's types. Therefore `#[derive(CType)]` emits a description of its
//! struct into a section, from `offset_of!` and `size_of`. In modules for FreeBSD and illumos the section is
//! `.sdt_types`, which is not loaded; `cargo sdt dlib` makes a D library from it. Elsewhere it is `sdt_types`, which is
//! part of the image: a host of `sdt-framework` passes it to consumers ([`declared`](crate::declared)).
//!
//! The section is text: lines of words with tabs between them. It can contain NULs anywhere; readers ignore them.
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
//! A struct without fields is opaque: D knows only its size. A constant belongs to the enum above it. A field belongs
//! to the struct or union above it. Its dimensions are three numbers with blanks between them, the outermost first,
//! with 0 for missing ones. Lines of D are the text of [`sdt_translator!`](crate::sdt_translator). An argument belongs to the
//! probe above it, and occupies one or two of D's arguments (words). Only in modules of FreeBSD and illumos, its C types follow;
//! a framework in the image reads them from the probe's record.

use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;
#[cfg(target_has_atomic = "8")]
use core::sync::atomic;

use crate::arg::CType;
use crate::name::TypeName;

/// The greatest number of dimensions of an array in a described struct.
const DIMENSIONS: usize = 3;

/// A type that a field of a described struct can have: a type with a [C name](CType), or an array of such types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no C type, so D cannot read a struct with this field",
    label = "no C type",
    note = "fields can be integers, `bool`, atomics, thin pointers and references, arrays of up to \
            three dimensions, and types that derive `CType` (enums with `#[repr(u32)]` or another \
            integer); for data that D does not read, use an array of bytes"
)]
pub trait CField {
    /// The type in front of the field's name.
    const TYPE: FieldType;

    /// The type of an element of an array.
    const ELEMENT: FieldType = Self::TYPE;
}

/// The C type of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldType {
    /// The type of one element.
    name: TypeName,
    /// The size of all elements in bytes.
    size: usize,
    /// The number of elements in each dimension, the outermost first, with 0 for missing dimensions.
    dimensions: [usize; DIMENSIONS],
}

impl FieldType {
    const fn of<T>(name: TypeName) -> Self {
        Self::named(name, size_of::<T>())
    }

    /// Returns the type with this name in C.
    #[doc(hidden)]
    pub const fn named(name: TypeName, size: usize) -> Self {
        Self { name, size, dimensions: [0; DIMENSIONS] }
    }

    /// Returns an array of this type.
    const fn array<T>(self, length: usize) -> Self {
        let [first, second, third] = self.dimensions;
        assert!(
            third == 0,
            "an array in a struct that derives `CType` can have at most three dimensions"
        );
        Self { name: self.name, size: size_of::<T>(), dimensions: [length, first, second] }
    }

    /// The size of all elements in bytes.
    #[doc(hidden)]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The number of elements in one dimension.
    #[doc(hidden)]
    pub const fn dimension(&self, index: usize) -> usize {
        self.dimensions[index]
    }

    /// Returns eight letters of the element type's name, in the order of memory.
    #[doc(hidden)]
    pub const fn letters(&self, index: usize) -> u64 {
        self.name.letters(index)
    }
}

impl<T: CType> CField for T {
    const TYPE: FieldType = FieldType::of::<T>(T::VALUE);
    // D shows bytes that are C's `char` as a string.
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

/// Returns the integer type that a C compiler uses for an enum of this size in bytes, with or without negative
/// constants: `int`, unless the target has short enums or a constant does not fit.
///
/// # Panics
/// If there is no such integer type.
#[doc(hidden)]
pub const fn c_enum(size: usize, is_negative: bool) -> TypeName {
    match (size, is_negative) {
        (1, true) => i8::VALUE,
        (1, false) => u8::VALUE,
        (2, true) => i16::VALUE,
        (2, false) => u16::VALUE,
        (4, _) => i32::VALUE,
        (8, _) => i64::VALUE,
        _ => panic!("no integer type of C has the size of this enum"),
    }
}

/// Types with the layout of another type.
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

/// Begins a piece of the description in a section of the image, for a framework in the image.
#[cfg(all(sdt_route = "provider", not(any(target_os = "freebsd", target_os = "illumos"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_types_section {
    () => {
        ".pushsection sdt_types, \"aR\", %progbits"
    };
}

/// Begins a piece of the description in a section that is not loaded, because the kernel does not use it.
#[cfg(not(all(sdt_route = "provider", not(any(target_os = "freebsd", target_os = "illumos")))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_types_section {
    () => {
        ".pushsection .sdt_types, \"\", %progbits"
    };
}

/// The declarations of an image for D.
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

/// With feature `off` there is no description, but constants and fields are checked.
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

/// Returns eight letters of the name of the native type of an argument's first or second word, in the order of memory; 0 if the
/// argument does not have the word.
#[cfg(not(all(sdt_route = "provider", not(any(target_os = "freebsd", target_os = "illumos")))))]
#[doc(hidden)]
pub const fn type_letters(types: &[crate::arg::ArgType], word: usize, index: usize) -> u64 {
    if word < types.len() { types[word].native.letters(index) } else { 0 }
}

/// Ends the compilation if a constant does not fit into an `int`, the type of C's enum constants.
#[doc(hidden)]
pub const fn check_constant(value: i128) {
    assert!(
        value >= i32::MIN as i128 && value <= i32::MAX as i128,
        "constants of enums are of type `int` in D: this value does not fit"
    );
}
