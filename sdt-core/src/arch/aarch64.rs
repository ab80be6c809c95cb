//! aarch64: a site is one nop, its breakpoint is `brk #0x40d`.

use core::arch::{asm, naked_asm};
use core::ffi::c_void;

use crate::capture::{Captures, Evaluator, evaluate};
use crate::fire::fire;

pub use dtrace_abi::site::aarch64::ENCODING;

/// Words apart that arguments lie on the stack, whose pointer has to stay a multiple of 16.
pub const WORD_STRIDE: usize = 2;

/// How far behind a site's address the saved program counter points after a breakpoint there.
pub const BREAKPOINT_LEN: usize = 0;

/// The firing site: the nop, its record in the set of sites, and the cold block it leads to. A direct jump leads
/// there, or the end of an exception ([`resume_address`](crate::trap::resume_address) says what that means under
/// control-flow integrity), so it needs no landing pad. The cold block calls the thunk directly, by its symbol, and that
/// returns as it was called: shadow stacks hold, and kCFI has nothing to check.
///
/// `nomem`, because the site itself touches nothing (the cold block is ordinary code the compiler
/// sees); `nostack` and `preserves_flags` likewise. Not `pure`: a site must not be merged with
/// another or dropped. Numeric label, because the site is duplicated wherever it is inlined.
#[cfg(sdt_site = "patched")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    ($sound:expr, $probe:path, $symbol:literal, $cold:block) => {{
        const _: $crate::__private::Sound = $sound;
        // SAFETY: a nop, and a record in a section of its own that nothing of this program's
        // data shares; when the nop is patched, control goes to the label block only.
        unsafe {
            ::core::arch::asm!(
                "77: nop",
                ::core::concat!(".pushsection ", $crate::__sdt_sites!(), ", \"awR\", @progbits"),
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

/// Hands the words over and calls the thunk: probe and words go onto the stack, the last word first,
/// and the thunk takes them off. No register is named but the one that a call changes anyway.
///
/// Without `nostack`, `preserves_flags`, `nomem` or `readonly`: it pushes, the thunk does not keep flags,
/// consumers read what arguments point to, and the framework writes.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_call {
    ($sound:expr, $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {
        $crate::__sdt_asm! {
            $sound, (
                $(::core::concat!("str {", ::core::stringify!($word), "}, [sp, #-16]!"),)*
                "adrp {__sdt_address}, {__sdt_probe}",
                "add {__sdt_address}, {__sdt_address}, :lo12:{__sdt_probe}",
                "str {__sdt_address}, [sp, #-16]!",
                "bl {__sdt_thunk}",
            )
            $($word = in(reg) $word,)*
            __sdt_address = out(reg) _,
            __sdt_probe = sym $probe,
            __sdt_thunk = sym $crate::__private::arch::thunk::<$count>,
        }
    };
}

/// Calls an evaluator through its thunk: onto the stack go pairs of words, the last one first.
///
/// The thunk is one for each evaluator: an address in a register would be loaded in front of a loop that the
/// site is in, on the hot path.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_evaluate {
    ($sound:expr, $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {
        $crate::__sdt_asm! {
            $sound, (
                $(::core::concat!("stp {", ::core::stringify!($low), "}, {", ::core::stringify!($high), "}, [sp, #-16]!"),)*
                "bl {__sdt_thunk}",
            )
            $($low = in(reg) $low, $high = in(reg) $high,)*
            __sdt_thunk = sym $thunk,
        }
    };
}

/// `asm!` in a cold block: what is lost there, general registers, those of vectors, and the platform's.
///
/// Of the general registers, that of the return address, and the two that a linker's veneer may change on the way of a
/// `bl` (AAPCS64, 6.1.1: IP0 and IP1).
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    ($sound:expr, ($($template:tt)*) $($operands:tt)*) => {
        $crate::__sdt_asm_vectors! {
            $sound, ($($template)*)
            ($($operands)* out("x16") _, out("x17") _, out("x30") _,)
        }
    };
}

/// In a kernel there are no vector registers to lose.
#[cfg(not(target_feature = "neon"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm_vectors {
    ($sound:expr, $template:tt $operands:tt) => {
        $crate::__sdt_asm_platform! { $sound, $template $operands }
    };
}

/// Where the target has vector registers (user-land hosts), what is called may use them, so they are clobbers: all
/// that are caller-saved (AAPCS64, 6.1.2), those of SVE as well, because a single function can have it
/// (`target_feature`) where the crate has not. Not v8 to v15: a function that loses their low halves has to save
/// these, on the hot path. The thunks preserve them, all 128 bits. Of SVE's longer z8 to z15 nothing more is: a
/// function must not keep that across a site. (Rust has no types for it, and compilers do not do so by themselves.)
#[cfg(target_feature = "neon")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm_vectors {
    ($sound:expr, $template:tt ($($operands:tt)*)) => {
        $crate::__sdt_asm_platform! {
            $sound, $template
            (
                $($operands)*
                out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                out("v24") _, out("v25") _, out("v26") _, out("v27") _,
                out("v28") _, out("v29") _, out("v30") _, out("v31") _,
                out("p0") _, out("p1") _, out("p2") _, out("p3") _,
                out("p4") _, out("p5") _, out("p6") _, out("p7") _,
                out("p8") _, out("p9") _, out("p10") _, out("p11") _,
                out("p12") _, out("p13") _, out("p14") _, out("p15") _,
            )
        }
    };
}

/// Where x18 is the platform's it must not be named: feature `reserved-x18` says so for kernels whose target is
/// not one that is known to reserve it.
#[cfg(any(
    target_os = "freebsd",
    target_os = "android",
    target_os = "fuchsia",
    target_os = "windows",
    target_env = "ohos",
    target_vendor = "apple",
    feature = "reserved-x18",
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm_platform {
    ($sound:expr, ($($template:tt)*) ($($operands:tt)*)) => {{
        const _: $crate::__private::Sound = $sound;
        // SAFETY: the thunks preserve all registers that are not named here, and leave the stack as it was.
        unsafe { ::core::arch::asm!($($template)* $($operands)*) }
    }};
}

/// Elsewhere x18 is a register like others, which a function may change.
#[cfg(not(any(
    target_os = "freebsd",
    target_os = "android",
    target_os = "fuchsia",
    target_os = "windows",
    target_env = "ohos",
    target_vendor = "apple",
    feature = "reserved-x18",
)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm_platform {
    ($sound:expr, ($($template:tt)*) ($($operands:tt)*)) => {{
        const _: $crate::__private::Sound = $sound;
        // SAFETY: the thunks preserve all registers that are not named here, and leave the stack as it was.
        unsafe { ::core::arch::asm!($($template)* $($operands)* out("x18") _) }
    }};
}

/// The instructions by which a thunk saves v8 to v15 and restores them. What it calls has to preserve their low halves
/// only.
#[cfg(not(target_feature = "neon"))]
macro_rules! vectors {
    ($which:ident) => {
        ""
    };
}

/// See the variant without vector registers.
#[cfg(target_feature = "neon")]
macro_rules! vectors {
    (save) => {
        "stp q8, q9, [sp, #-128]!
        stp q10, q11, [sp, #32]
        stp q12, q13, [sp, #64]
        stp q14, q15, [sp, #96]"
    };
    (restore) => {
        "ldp q10, q11, [sp, #32]
        ldp q12, q13, [sp, #64]
        ldp q14, q15, [sp, #96]
        ldp q8, q9, [sp], #128"
    };
}

/// Sets up a frame, saves the registers a C function may change, runs `$call`, restores them, and returns over
/// `{taken}` bytes of stack. Keeps the frame chain: `stack()` finds, next to the framework's own
/// frames, this one, and then the function that fired. Below the frame pointer is room for the slots of a hit: mark,
/// words, count.
///
/// Not saved: x18. FreeBSD and others keep the CPU's own data there, which is another after a thread has been
/// moved; and no kernel that does not reserve it may call code that does. Nor x16 and x17, which are lost on the way
/// here.
macro_rules! preserving {
    ($($call:literal),*; $($operands:tt)*) => {
        naked_asm!(
            "stp x29, x30, [sp, #-16]!",
            "mov x29, sp",
            "sub sp, sp, #160",
            "stp x0, x1, [sp, #0]",
            "stp x2, x3, [sp, #16]",
            "stp x4, x5, [sp, #32]",
            "stp x6, x7, [sp, #48]",
            "stp x8, x9, [sp, #64]",
            "stp x10, x11, [sp, #80]",
            "stp x12, x13, [sp, #96]",
            "stp x14, x15, [sp, #112]",
            vectors!(save),
            $($call,)*
            vectors!(restore),
            "ldp x0, x1, [sp, #0]",
            "ldp x2, x3, [sp, #16]",
            "ldp x4, x5, [sp, #32]",
            "ldp x6, x7, [sp, #48]",
            "ldp x8, x9, [sp, #64]",
            "ldp x10, x11, [sp, #80]",
            "ldp x12, x13, [sp, #96]",
            "ldp x14, x15, [sp, #112]",
            "mov sp, x29",
            "ldp x29, x30, [sp], #16",
            "add sp, sp, #{taken}",
            "ret",
            $($operands)*
        )
    };
}

/// Fires a probe with `N` arguments. On the stack, each in 16 bytes: the probe record, the words. They are
/// taken off. Preserves every general register but x16, x17, x18 and x30, not the flags.
///
/// # Safety
/// Only for the assembly of `__sdt_call!`: it is no C function.
#[unsafe(naked)]
pub unsafe extern "C" fn thunk<const N: usize>() {
    preserving!(
        "ldr x0, [x29, #16]",
        "add x1, x29, #32",
        "mov x2, #{count}",
        "mov x3, x29",
        "bl {fire}";
        count = const N,
        fire = sym fire,
        taken = const 16 * (N + 1),
    )
}

/// Runs the evaluator of `F` over `C`. On the stack, from the return address up: `N` pairs of words, those of
/// the captures and, if it has a size, the closure. They are taken off. Preserves every general register but x16, x17, x18
/// and x30, not the flags.
///
/// # Safety
/// Only for the assembly of `__sdt_evaluate!`: it is no C function.
#[unsafe(naked)]
pub unsafe extern "C" fn evaluate_thunk<C: Captures, F: Evaluator<C>, const N: usize>() {
    preserving!(
        "add x0, x29, #16",
        "mov x1, x29",
        "bl {evaluate}";
        evaluate = sym evaluate::<C, F>,
        taken = const 16 * N,
    )
}

/// Calls `function(id, args...)` as if from the thunk whose frame is `frame`: of what is in between, nothing is in
/// the frame chain. The kernel takes its caller for the one artificial frame of C's macro, and finds the function
/// that fired next.
///
/// # Safety
/// `frame` is the frame pointer of a thunk further up the stack; `function` takes what it is given.
#[cfg(sdt_route = "native")]
#[unsafe(naked)]
pub unsafe extern "C" fn call_from(
    frame: *const c_void,
    function: *const (),
    id: u32,
    args: *const [u64; crate::ops::ARGS],
) {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, x0",
        "mov x16, x1",
        "mov w0, w2",
        "ldp x5, x6, [x3, #32]",
        "ldr x4, [x3, #24]",
        "ldp x1, x2, [x3]",
        "ldr x3, [x3, #16]",
        "blr x16",
        "ldp x29, x30, [sp], #16",
        "ret",
    )
}

/// Calls [`fire`] as if from the thunk whose frame is `frame`: what an evaluator and its callees have
/// put on the stack in between is not in the frame chain, so that `stack()` sees the same frames
/// whether the arguments were costly or not.
///
/// # Safety
/// As [`fire`]; `frame` is the frame pointer an [`evaluate_thunk`] further up the stack passed on.
#[cfg(sdt_route = "provider")]
#[unsafe(naked)]
pub unsafe extern "C" fn fire_at(
    probe: *const crate::record::Probe,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, x3",
        "bl {fire}",
        "ldp x29, x30, [sp], #16",
        "ret",
        fire = sym fire,
    )
}

/// From a frame pointer: where the caller's is saved.
pub const NEXT_FRAME: isize = 0;

/// From a thunk's frame pointer: the last of the hit's slots, which go down from there.
pub const HIT_SLOTS: isize = -8;

/// The frame pointer of the function this is inlined into.
#[inline(always)]
pub fn frame_pointer() -> *const c_void {
    let frame;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}
