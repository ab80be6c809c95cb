//! What differs by architecture: the site's instruction, the breakpoint over it, and the thunks
//! through which a cold block leaves.
//!
//! Each architecture is one file with the same items: the macros `__sdt_site!`, `__sdt_call!` and
//! `__sdt_evaluate!`, which expand in the crate that fires, and [`ENCODING`],
//! [`BREAKPOINT_LEN`], [`WORD_STRIDE`], [`thunk`], [`evaluate_thunk`], [`fire_at`], [`frame_pointer`],
//! [`NEXT_FRAME`] and [`HIT_SLOTS`].
//!
//! What the macros expand to is sound for the records and words that a site gives them. They cannot check that, so
//! whoever writes these has to [promise](crate::__private::Sound) it, which is `unsafe`.
//!
//! `portable.rs` is the file for all other architectures.
//!
//! # Gate mode
//!
//! For hosts that cannot write to their text (flash), and for architectures without a file, no text is patched: a
//! site is one relaxed load and a branch that is predicted not to be taken. There are no records of sites
//! then, and no breakpoints. Elsewhere `SDT_PATCH=gate` in the environment of the build
//! chooses it.

#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")),
    path = "portable.rs"
)]
mod target;
pub use target::*;

#[cfg(sdt_route = "provider")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/idt.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "handler.rs")]
pub mod handler;

/// All that a site is, unless feature `off` is on.
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_unless_off {
    ($($site:tt)*) => { $($site)* };
}

/// With feature `off` a site is checked, and no code is made of it.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_unless_off {
    ($($site:tt)*) => {
        if false {
            $($site)*
        }
    };
}

/// The firing site in gate mode: the test, and the cold block.
#[cfg(sdt_site = "gate")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    ($sound:expr, $probe:path, $symbol:literal, $cold:block) => {
        if $probe.gate() {
            $crate::__private::arch::unlikely();
            $cold
        }
    };
}

/// The firing site for FreeBSD 10 to 14, whose sdt patches nothing: the test, and the cold block.
#[cfg(sdt_site = "tested")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    ($sound:expr, $probe:path, $symbol:literal, $cold:block) => {{
        const _: $crate::__private::Sound = $sound;
        // SAFETY: the record of the site's probe, a static.
        if unsafe { $crate::__private::fire::may_fire(&raw const $probe) } {
            $crate::__private::arch::unlikely();
            $cold
        }
    }};
}

/// What is handed to an evaluator to fire from: nothing where its thunk knows.
#[cfg(not(sdt_site = "call"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_trampoline {
    ($sound:expr, $symbol:literal) => {
        ()
    };
}

/// The section of the sites' records.
#[cfg(sdt_route = "provider")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_sites {
    () => {
        "sdt_sites"
    };
}

/// The section of the sites' records: FreeBSD 15's.
#[cfg(sdt_route = "native")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_sites {
    () => {
        "set_sdt_tracepoint_set"
    };
}

/// Tells the compiler that a block which begins with it is seldom executed.
#[doc(hidden)]
#[cold]
#[inline]
pub const fn unlikely() {}
