//! aarch64: a site is one nop, its breakpoint is `brk #0x40d`.

use core::arch::asm;
use core::ffi::c_void;

pub use dtrace_abi::site::aarch64::ENCODING;

/// Distance of two arguments on the stack, in words. The stack pointer must stay a multiple of 16.
pub const WORD_STRIDE: usize = 2;

/// Distance in bytes from a site's address to the program counter that a breakpoint there saves.
pub const BREAKPOINT_LEN: usize = 0;

/// The instructions at a site, by architecture.
///
/// `@call` pushes the probe and the words, the last word first, and calls the thunk, which pops them. The only named
/// register is the one that a call changes anyway.
///
/// `@evaluate` pushes pairs of words, the last one first, and calls the thunk of the evaluator. Each evaluator has its
/// own thunk: the compiler would load an address in a register before a loop that contains the site, which is on the
/// hot path.
///
/// The assembly omits four options: `nostack`, because it pushes words; `preserves_flags`, because the thunk changes
/// flags; `nomem` and `readonly`, because consumers read memory through arguments and the framework writes memory.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_arch {
    (@nop) => { "77: nop" };
    (@call $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {
        $crate::__sdt_asm! {
            (
                $(::core::concat!("str {", ::core::stringify!($word), "}, [sp, #-16]!"),)*
                "adrp {__sdt_address}, {__sdt_probe}",
                "add {__sdt_address}, {__sdt_address}, :lo12:{__sdt_probe}",
                "str {__sdt_address}, [sp, #-16]!",
                "bl {__sdt_thunk}",
            )
            $($word = in(reg) $word,)*
            __sdt_address = out(reg) _,
            __sdt_probe = sym $probe,
            __sdt_thunk = sym $crate::__private::thunk::thunk::<$count>,
        }
    };
    (@evaluate $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {
        $crate::__sdt_asm! {
            (
                $(::core::concat!("stp {", ::core::stringify!($low), "}, {", ::core::stringify!($high), "}, [sp, #-16]!"),)*
                "bl {__sdt_thunk}",
            )
            $($low = in(reg) $low, $high = in(reg) $high,)*
            __sdt_thunk = sym $thunk,
        }
    };
}

/// `asm!` in a cold block, with the registers that a call there clobbers.
///
/// The clobbered general registers are that of the return address, the two that a linker's veneer may change during a `bl`
/// (AAPCS64, 6.1.1: IP0 and IP1), and x18, unless `__sdt_x18!` reserves it for the platform. A kernel uses no vector registers.
#[cfg(not(target_feature = "neon"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    ($template:tt $($operands:tt)*) => {
        $crate::__sdt_x18! { $template ($($operands)* out("x16") _, out("x17") _, out("x30") _,) }
    };
}

/// `asm!` in a cold block, on targets with vector registers (user-land hosts). The called functions may use them, so
/// all caller-saved ones are clobbers (AAPCS64, 6.1.2). This includes the registers of SVE, because a single function
/// can use it (`target_feature`) even if the crate does not. v8 to v15 are not clobbers: only their low halves are
/// callee-saved, so the compiler would save these on the hot path. Instead, the thunks preserve all 128 bits of them.
/// They do not preserve the upper part of SVE's z8 to z15, so a function must not keep a value there across a site.
/// (Rust has no types for it, and compilers do not use it on their own.)
#[cfg(target_feature = "neon")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    ($template:tt $($operands:tt)*) => {
        $crate::__sdt_x18! {
            $template
            (
                $($operands)* out("x16") _, out("x17") _, out("x30") _,
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

/// If the platform reserves x18, the assembly must not name it. Feature `reserved-x18` is for kernels whose target is
/// not known to reserve it.
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
macro_rules! __sdt_x18 {
    (($($template:tt)*) ($($operands:tt)*)) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunks preserve all registers that are not named here, and leave the stack as it was.
        unsafe { ::core::arch::asm!($($template)* $($operands)*) }
    }};
}

/// On other platforms x18 is an ordinary register, which a function may change.
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
macro_rules! __sdt_x18 {
    (($($template:tt)*) ($($operands:tt)*)) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunks preserve all registers that are not named here, and leave the stack as it was.
        unsafe { ::core::arch::asm!($($template)* $($operands)* out("x18") _) }
    }};
}

/// Emits nothing: without vector registers, a thunk has none to save.
#[cfg(not(target_feature = "neon"))]
macro_rules! vectors {
    ($which:ident) => {
        ""
    };
}

/// Emits the instructions by which a thunk saves v8 to v15 and restores them. Called functions preserve only their low
/// halves.
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

pub(crate) use vectors;

/// The pieces of assembly of the thunks (`thunk.rs`).
///
/// Not saved: x18, because FreeBSD and others keep a pointer to the data of the CPU there, which changes when a thread
/// moves to another CPU, and because a kernel that does not reserve it must not call code that does; x16 and x17,
/// because the call of the thunk may change them.
macro_rules! piece {
    (enter) => {
        concat!(
            "stp x29, x30, [sp, #-16]!
        mov x29, sp
        sub sp, sp, #160
        stp x0, x1, [sp, #0]
        stp x2, x3, [sp, #16]
        stp x4, x5, [sp, #32]
        stp x6, x7, [sp, #48]
        stp x8, x9, [sp, #64]
        stp x10, x11, [sp, #80]
        stp x12, x13, [sp, #96]
        stp x14, x15, [sp, #112]\n",
            $crate::arch::vectors!(save)
        )
    };
    (leave) => {
        concat!(
            $crate::arch::vectors!(restore),
            "\nldp x0, x1, [sp, #0]
        ldp x2, x3, [sp, #16]
        ldp x4, x5, [sp, #32]
        ldp x6, x7, [sp, #48]
        ldp x8, x9, [sp, #64]
        ldp x10, x11, [sp, #80]
        ldp x12, x13, [sp, #96]
        ldp x14, x15, [sp, #112]
        mov sp, x29
        ldp x29, x30, [sp], #16
        add sp, sp, #{taken}
        ret"
        )
    };
    (fire) => {
        "ldr x0, [x29, #16]
        add x1, x29, #32
        mov x2, #{count}
        mov x3, x29
        bl {function}"
    };
    (evaluate) => {
        "add x0, x29, #16
        mov x1, x29
        bl {function}"
    };
    (fire_at) => {
        "stp x29, x30, [sp, #-16]!
        mov x29, x3
        bl {function}
        ldp x29, x30, [sp], #16
        ret"
    };
    (call_from) => {
        "stp x29, x30, [sp, #-16]!
        mov x29, x0
        mov x16, x1
        mov w0, w2
        ldp x5, x6, [x3, #32]
        ldr x4, [x3, #24]
        ldp x1, x2, [x3]
        ldr x3, [x3, #16]
        blr x16
        ldp x29, x30, [sp], #16
        ret"
    };
}
pub(crate) use piece;

/// Bytes on the stack that `@call` pushes besides the words: the probe's record.
pub(crate) const FIRE_BESIDES: usize = 16;

/// Bytes on the stack that `@evaluate` pushes besides the words.
pub(crate) const EVALUATE_BESIDES: usize = 0;

/// Offset from a frame pointer to the saved frame pointer of the caller.
pub const NEXT_FRAME: isize = 0;

/// Offset from a thunk's frame pointer to the last slot of the hit. The other slots are below it.
pub const HIT_SLOTS: isize = -8;

/// Returns the frame pointer of the function into which this is inlined.
#[inline(always)]
pub fn frame_pointer() -> *const c_void {
    let frame;
    // SAFETY: the instruction only reads a register.
    unsafe { asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}
