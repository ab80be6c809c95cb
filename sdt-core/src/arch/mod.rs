//! The parts that differ between architectures: the instruction of a site, its breakpoint, and the thunks that a cold
//! block calls.
//!
//! Each architecture is one file with the same items: the macros `__sdt_arch!` and `__sdt_asm!`, which expand in the
//! crate that fires, [`ENCODING`], [`BREAKPOINT_LEN`], [`WORD_STRIDE`], [`frame_pointer`], [`NEXT_FRAME`], [`HIT_SLOTS`],
//! and the pieces of assembly of which `thunk.rs` makes its functions.
//!
//! | macro | | differs by |
//! |---|---|---|
//! | `__sdt!` | records of probes and providers, strings of assembly | route |
//! | `__sdt_leave!` | entries of the linker sets, all code of a site | route, feature `off` |
//! | `__sdt_site!` | the firing site | form of the site |
//! | `__sdt_arch!` | the site's instruction, the calls of the thunks | architecture |
//! | `__sdt_asm!` | `asm!` with the registers that a call in a cold block clobbers | architecture, its vector registers |
//! | `__sdt_stap!` | notes and semaphores | feature `stapsdt` |
//! | `__sdt_types!` | text for D | feature `off` |
//!
//! These macros are sound only with the records and words of a site, which they cannot check. So their assembly refers to
//! the constant `__SDT_PROMISE`, a [promise](crate::__private::Promise) that the caller must define once, with `unsafe`.
//!
//! `portable.rs` is the file for all other architectures.
//!
//! # Gate mode
//!
//! On hosts that cannot write to their text (flash), and on the architectures of `portable.rs`, no text is patched: a site is
//! one relaxed load and a branch that is predicted as not taken. In this mode there are no records of sites and no
//! breakpoints. On other hosts, `SDT_PATCH=gate` in the environment of the build selects this mode.

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

/// The firing site: the nop, its record in the set of sites, and the cold block. Control reaches the cold block by a
/// direct jump, or by the return from an exception ([`resume_address`](crate::trap::resume_address) describes the
/// effect of control-flow integrity), so it needs no landing pad. The cold block calls the thunk directly by its
/// symbol, and the thunk returns in the ordinary way, so shadow stacks stay balanced and kCFI has nothing to check.
///
/// The options of the assembly: `nomem`, because the site itself accesses no memory (the cold block is ordinary code that the
/// compiler sees); `nostack` and `preserves_flags` for the same reason. Not `pure`: the compiler must neither merge a site with
/// another one nor drop it. The label is numeric, because the site is duplicated wherever it is inlined.
#[cfg(sdt_site = "patched")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    (@trampoline $symbol:literal) => { () };
    (@site $probe:path, $symbol:literal, $cold:block) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the code is a nop, and a record in a section without other data of this program. The patched nop
        // transfers control only to the label block.
        unsafe {
            ::core::arch::asm!(
                $crate::__sdt_arch!(@nop),
                ::core::concat!(".pushsection ", $crate::__sdt!(@sites), ", \"awR\", @progbits"),
                ".balign 8",
                ".quad {__sdt_probe}, 77b, {__sdt_cold}, 0",
                ".popsection",
                __sdt_probe = sym $probe,
                __sdt_cold = label $cold,
                options(nomem, nostack, preserves_flags),
            )
        }
    }};
}

/// The firing site in gate mode: the test, and the cold block.
#[cfg(sdt_site = "gate")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    (@trampoline $symbol:literal) => {
        ()
    };
    (@site $probe:path, $symbol:literal, $cold:block) => {
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
    (@trampoline $symbol:literal) => {
        ()
    };
    (@site $probe:path, $symbol:literal, $cold:block) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the macros pass the record of the site's probe, which is a static.
        if unsafe { $crate::__private::fire::may_fire(&raw const $probe) } {
            $crate::__private::arch::unlikely();
            $cold
        }
    }};
}

/// Marks the block that begins with this call as seldom executed.
#[doc(hidden)]
#[cold]
#[inline]
pub const fn unlikely() {}
