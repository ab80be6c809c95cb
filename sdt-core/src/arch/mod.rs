//! What differs by architecture: the site's instruction, the breakpoint over it, and the thunks
//! through which a cold block leaves.
//!
//! Each architecture is one file with the same items: the macros `__sdt_site!`, `__sdt_call!` and
//! `__sdt_evaluate!`, which expand in the crate that fires, and [`ENCODING`], [`SITE_LEN`],
//! [`BREAKPOINT_LEN`], [`WORD_STRIDE`], [`thunk`], [`evaluate_thunk`], [`fire_at`], [`frame_pointer`],
//! [`NEXT_FRAME`] and [`HIT_SLOTS`].
//!
//! `portable.rs` is the file for all other architectures.
//!
//! # Gate mode
//!
//! For hosts that cannot write to their text (flash), and for architectures without a file, no text is patched: a
//! site is one relaxed load and a branch that is predicted not to be taken. There are no records of sites
//! then, and no breakpoints. Elsewhere feature `gate` chooses it.

#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")),
    path = "portable.rs"
)]
mod target;
pub use target::*;

/// The firing site in gate mode: the test, and the cold block.
#[cfg(sdt_site = "gate")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    ($probe:path, $symbol:literal, $cold:block) => {
        if $probe.gate() {
            $crate::arch::unlikely();
            $cold
        }
    };
}

/// The firing site for FreeBSD 10 to 14, whose sdt patches nothing: the test, and the cold block.
#[cfg(sdt_site = "asked")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    ($probe:path, $symbol:literal, $cold:block) => {
        // SAFETY: the record of the site's probe, a static.
        if unsafe { $crate::freebsd::native::may_fire(&raw const $probe) } {
            $crate::arch::unlikely();
            $cold
        }
    };
}

/// What is handed to an evaluator to fire from: nothing where its thunk knows.
#[cfg(not(sdt_route = "illumos"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_landing {
    ($symbol:literal) => {
        ()
    };
}

/// The site, if its arguments are not more than FreeBSD's sdt carried before 15.
#[cfg(sdt_site = "asked")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_if_carried {
    (6 $site:block) => { $crate::__sdt_if_carried!(7 $site) };
    (7 $site:block) => {
        ::core::compile_error!("a probe has at most 5 arguments on FreeBSD before 15")
    };
    (8 $site:block) => { $crate::__sdt_if_carried!(7 $site) };
    (9 $site:block) => { $crate::__sdt_if_carried!(7 $site) };
    (10 $site:block) => { $crate::__sdt_if_carried!(7 $site) };
    ($count:literal $site:block) => { $site };
}

/// The site, if its arguments are not more than are carried: but on illumos, six.
#[cfg(not(any(sdt_site = "asked", sdt_route = "illumos")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_if_carried {
    (7 $site:block) => {
        ::core::compile_error!("a probe has at most 6 arguments; only illumos carries more")
    };
    (8 $site:block) => { $crate::__sdt_if_carried!(7 $site) };
    (9 $site:block) => { $crate::__sdt_if_carried!(7 $site) };
    (10 $site:block) => { $crate::__sdt_if_carried!(7 $site) };
    ($count:literal $site:block) => { $site };
}

/// The site: illumos carries as many arguments as the macros take.
#[cfg(sdt_route = "illumos")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_if_carried {
    ($count:literal $site:block) => {
        $site
    };
}

/// The section of the sites' records.
#[cfg(sdt_route = "registry")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_sites {
    () => {
        "sdt_sites"
    };
}

/// The section of the sites' records: FreeBSD 15's.
#[cfg(sdt_route = "freebsd")]
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
