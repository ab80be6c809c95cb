//! A description of a module's probes, for who checks the module: section `.sdt_probes`, which is not loaded.
//!
//! On illumos's native route a probe is the name of a symbol, and nothing else of it is in the module. So it says itself
//! whose probes they are and what they carry. Other routes have records for that, and leave no description.
//!
//! The section is text: lines of words with tabs between them, and NULs anywhere, which mean nothing.
//!
//! ```text
//! probe  HASH  SYMBOL  PROVIDER  NAME
//! count  HASH  ARGUMENTS
//! arg    HASH  INDEX   TYPE
//! ```
//!
//! A line may be there more than once. The hash is that of provider and name.

/// A description is left.
#[cfg(all(sdt_site = "call", not(sdt_off)))]
mod left {
    use core::arch::asm;

    use crate::arg::Argument;

    /// Leaves what is known of a declared probe.
    #[doc(hidden)]
    #[macro_export]
    macro_rules! __sdt_describe_declared {
        ($described:literal, $hash:literal, $count:literal, [$($index:literal $type:ty),*]) => {
            ::core::arch::global_asm!(
                ".pushsection .sdt_probes, \"\", @progbits",
                ::core::concat!(".ascii \"probe\\t", $described, "\\n\""),
                ::core::concat!(".ascii \"count\\t", $hash, "\\t", $count, "\\n\""),
                ".popsection",
            );
            $(::core::arch::global_asm!(
                ".pushsection .sdt_probes, \"\", @progbits",
                ::core::concat!(".ascii \"arg\\t", $hash, "\\t", $index, "\\t\""),
                ".8byte {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
                ".ascii \"\\n\"",
                ".popsection",
                const $crate::__private::describe::letters::<$type>(0),
                const $crate::__private::describe::letters::<$type>(1),
                const $crate::__private::describe::letters::<$type>(2),
                const $crate::__private::describe::letters::<$type>(3),
                const $crate::__private::describe::letters::<$type>(4),
                const $crate::__private::describe::letters::<$type>(5),
                const $crate::__private::describe::letters::<$type>(6),
                const $crate::__private::describe::letters::<$type>(7),
                const $crate::__private::describe::letters::<$type>(8),
                const $crate::__private::describe::letters::<$type>(9),
                const $crate::__private::describe::letters::<$type>(10),
                const $crate::__private::describe::letters::<$type>(11),
                const $crate::__private::describe::letters::<$type>(12),
                const $crate::__private::describe::letters::<$type>(13),
                const $crate::__private::describe::letters::<$type>(14),
                const $crate::__private::describe::letters::<$type>(15),
            );)*
        };
    }

    /// Leaves the names of an open provider's probe.
    #[doc(hidden)]
    #[macro_export]
    macro_rules! __sdt_describe_open {
        ($described:literal) => {
            // SAFETY: no instruction; a section of its own, which is not loaded.
            unsafe {
                ::core::arch::asm!(
                    ".pushsection .sdt_probes, \"\", @progbits",
                    ::core::concat!(".ascii \"probe\\t", $described, "\\n\""),
                    ".popsection",
                    options(nomem, nostack, preserves_flags),
                )
            }
        };
    }

    /// Leaves what one site takes the arguments of an open provider's probe to be.
    #[doc(hidden)]
    #[macro_export]
    macro_rules! __sdt_describe_args {
        ($hash:literal, $args:ident) => {
            $crate::__private::describe::list_args::<$hash, _>(&$args);
        };
    }

    /// A tuple of arguments.
    pub trait Arguments {
        /// Leaves their description. No code.
        fn list<const HASH: u64>();
    }

    macro_rules! tuples {
        ($($count:literal: $($index:literal $arg:ident)*;)*) => {$(
            impl<$($arg: Argument),*> Arguments for ($($arg,)*) {
                #[inline(always)]
                fn list<const HASH: u64>() {
                    list_count::<HASH, $count>();
                    $(list_arg::<HASH, $arg, $index>();)*
                }
            }
        )*};
    }

    tuples! {
        0: ;
        1: 0 A;
        2: 0 A 1 B;
        3: 0 A 1 B 2 C;
        4: 0 A 1 B 2 C 3 D;
        5: 0 A 1 B 2 C 3 D 4 E;
        6: 0 A 1 B 2 C 3 D 4 E 5 F;
        7: 0 A 1 B 2 C 3 D 4 E 5 F 6 G;
        8: 0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H;
        9: 0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I;
        10: 0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H 8 I 9 J;
    }

    /// Leaves the description of arguments, as one site fires them. No code.
    #[inline(always)]
    pub fn list_args<const HASH: u64, A: Arguments>(_: &A) {
        A::list::<HASH>();
    }

    #[inline(always)]
    fn list_count<const HASH: u64, const COUNT: usize>() {
        // SAFETY: no instruction; a section of its own, which is not loaded.
        unsafe {
            asm!(
                ".pushsection .sdt_probes, \"\", @progbits",
                ".ascii \"count\\t{hash}\\t{count}\\n\"",
                ".popsection",
                hash = const HASH,
                count = const COUNT,
                options(nomem, nostack, preserves_flags),
            )
        }
    }

    #[inline(always)]
    fn list_arg<const HASH: u64, A: Argument, const INDEX: usize>() {
        // SAFETY: no instruction; a section of its own, which is not loaded.
        unsafe {
            asm!(
                ".pushsection .sdt_probes, \"\", @progbits",
                ".ascii \"arg\\t{hash}\\t{index}\\t\"",
                ".8byte {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
                ".ascii \"\\n\"",
                ".popsection",
                const letters::<A>(0), const letters::<A>(1), const letters::<A>(2), const letters::<A>(3),
                const letters::<A>(4), const letters::<A>(5), const letters::<A>(6), const letters::<A>(7),
                const letters::<A>(8), const letters::<A>(9), const letters::<A>(10), const letters::<A>(11),
                const letters::<A>(12), const letters::<A>(13), const letters::<A>(14), const letters::<A>(15),
                hash = const HASH,
                index = const INDEX,
                options(nomem, nostack, preserves_flags),
            )
        }
    }

    /// Eight letters of the name of an argument's type.
    pub const fn letters<A: Argument>(index: usize) -> u64 {
        A::TYPE.native.letters(index)
    }
}

#[cfg(all(sdt_site = "call", not(sdt_off)))]
pub use left::*;

/// No description.
#[cfg(not(all(sdt_site = "call", not(sdt_off))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_describe_declared {
    ($($probe:tt)*) => {};
}

/// No description.
#[cfg(not(all(sdt_site = "call", not(sdt_off))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_describe_open {
    ($($probe:tt)*) => {};
}

/// No description.
#[cfg(all(sdt_site = "call", sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_describe_args {
    ($($probe:tt)*) => {};
}
