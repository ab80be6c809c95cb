//! A description of a module's probes for the check of the module: section `.sdt_probes`, which is not loaded.
//!
//! On illumos's native route, the module contains only the names of symbols for its probes. The description adds their
//! providers and the types of their arguments. Other routes have records, and no description.
//!
//! The section is text: lines of words with tabs between them. It can contain NULs anywhere; readers ignore them.
//!
//! ```text
//! probe  HASH  SYMBOL  PROVIDER  NAME
//! count  HASH  ARGUMENTS
//! arg    HASH  INDEX   TYPE
//! ```
//!
//! A line may occur more than once. The hash is over the provider and the name.

/// Selects the parts of probes and sites that remain in the image: all code, and descriptions.
///
/// `@code` is the code of a site, `@declared` describes a declared probe, and `@open` gives the names of an open provider's
/// probe.
#[cfg(all(sdt_site = "call", not(sdt_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_leave {
    (@code $($site:tt)*) => { $($site)* };
    (@declared $described:literal, $hash:literal, $types:path) => {
        ::core::arch::global_asm!(
            ".pushsection .sdt_probes, \"\", @progbits",
            ::core::concat!(".ascii \"probe\\t", $described, "\\n\""),
            ::core::concat!(".ascii \"count\\t", $hash, "\\t{}\\n\""),
            ".popsection",
            const $crate::arg::count($types),
        );
        $crate::__sdt_leave! { @args $hash, $types, 0 1 2 3 4 5 6 7 8 9 }
    };
    (@args $hash:literal, $types:path, $($index:literal)*) => {
        $(::core::arch::global_asm!(
            ::core::concat!(".if ", $index, " < {}"),
            ".pushsection .sdt_probes, \"\", @progbits",
            ::core::concat!(".ascii \"arg\\t", $hash, "\\t", $index, "\\t\""),
            ".8byte {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
            ".ascii \"\\n\"",
            ".popsection",
            ".endif",
            const $crate::arg::count($types),
            const $crate::__private::describe::letters($types, $index, 0),
            const $crate::__private::describe::letters($types, $index, 1),
            const $crate::__private::describe::letters($types, $index, 2),
            const $crate::__private::describe::letters($types, $index, 3),
            const $crate::__private::describe::letters($types, $index, 4),
            const $crate::__private::describe::letters($types, $index, 5),
            const $crate::__private::describe::letters($types, $index, 6),
            const $crate::__private::describe::letters($types, $index, 7),
            const $crate::__private::describe::letters($types, $index, 8),
            const $crate::__private::describe::letters($types, $index, 9),
            const $crate::__private::describe::letters($types, $index, 10),
            const $crate::__private::describe::letters($types, $index, 11),
            const $crate::__private::describe::letters($types, $index, 12),
            const $crate::__private::describe::letters($types, $index, 13),
            const $crate::__private::describe::letters($types, $index, 14),
            const $crate::__private::describe::letters($types, $index, 15),
        );)*
    };
    (@open $described:literal) => {
        // SAFETY: the assembly has no instruction, and only a section that is not loaded.
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

/// With feature `off`, the code of a site is checked and never executed, and there is no description.
#[cfg(all(sdt_site = "call", sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_leave {
    (@code $($site:tt)*) => {
        if false {
            $($site)*
        }
    };
    (@declared $($probe:tt)*) => {};
    (@open $($probe:tt)*) => {};
}

/// The description of the arguments of sites.
#[cfg(all(sdt_site = "call", not(sdt_off)))]
mod left {
    use core::arch::asm;

    use crate::arg::{ArgTypes, Tuple};
    use crate::route::open::OpenProbe;

    /// Emits the argument types of one site of an open provider's probe. Emits no code.
    #[inline(always)]
    pub fn list_args<P: OpenProbe, A: Tuple<COUNT>, const COUNT: usize>() {
        // SAFETY: the assembly has no instruction, and only a section that is not loaded.
        unsafe {
            asm!(
                ".pushsection .sdt_probes, \"\", @progbits",
                ".ascii \"count\\t{hash}\\t{count}\\n\"",
                ".popsection",
                hash = const P::HASH,
                count = const A::WORDS,
                options(nomem, nostack, preserves_flags),
            )
        }
        list_arg::<P, A, COUNT, 0>();
        list_arg::<P, A, COUNT, 1>();
        list_arg::<P, A, COUNT, 2>();
        list_arg::<P, A, COUNT, 3>();
        list_arg::<P, A, COUNT, 4>();
        list_arg::<P, A, COUNT, 5>();
        list_arg::<P, A, COUNT, 6>();
        list_arg::<P, A, COUNT, 7>();
        list_arg::<P, A, COUNT, 8>();
        list_arg::<P, A, COUNT, 9>();
    }

    /// Emits the argument at an index, if it exists.
    #[inline(always)]
    fn list_arg<P: OpenProbe, A: Tuple<COUNT>, const COUNT: usize, const INDEX: usize>() {
        if const { INDEX >= A::WORDS } {
            return;
        }
        // SAFETY: the assembly has no instruction, and only a section that is not loaded.
        unsafe {
            asm!(
                ".pushsection .sdt_probes, \"\", @progbits",
                ".ascii \"arg\\t{hash}\\t{index}\\t\"",
                ".8byte {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
                ".ascii \"\\n\"",
                ".popsection",
                const letters(A::TYPES, INDEX, 0), const letters(A::TYPES, INDEX, 1),
                const letters(A::TYPES, INDEX, 2), const letters(A::TYPES, INDEX, 3),
                const letters(A::TYPES, INDEX, 4), const letters(A::TYPES, INDEX, 5),
                const letters(A::TYPES, INDEX, 6), const letters(A::TYPES, INDEX, 7),
                const letters(A::TYPES, INDEX, 8), const letters(A::TYPES, INDEX, 9),
                const letters(A::TYPES, INDEX, 10), const letters(A::TYPES, INDEX, 11),
                const letters(A::TYPES, INDEX, 12), const letters(A::TYPES, INDEX, 13),
                const letters(A::TYPES, INDEX, 14), const letters(A::TYPES, INDEX, 15),
                hash = const P::HASH,
                index = const INDEX,
                options(nomem, nostack, preserves_flags),
            )
        }
    }

    /// Returns eight letters of the name of the native type of the argument at an index; 0 if there is no such
    /// argument.
    pub const fn letters(types: ArgTypes, index: usize, eight: usize) -> u64 {
        let (mut before, mut i) = (0, 0);
        while i < types.len() {
            if index < before + types[i].len() {
                return types[i][index - before].native.letters(eight);
            }
            before += types[i].len();
            i += 1;
        }
        0
    }
}

#[cfg(all(sdt_site = "call", not(sdt_off)))]
pub use left::*;

/// Emits no description.
#[cfg(all(sdt_site = "call", sdt_off))]
#[inline(always)]
pub fn list_args<
    P: crate::route::open::OpenProbe,
    A: crate::arg::Tuple<COUNT>,
    const COUNT: usize,
>() {
}
