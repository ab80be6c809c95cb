//! riscv64: a site is one 4-byte nop, its breakpoint is `c.ebreak` over the first half, or, without the C extension,
//! `ebreak`.

use core::arch::{asm, naked_asm};
use core::ffi::c_void;

use crate::capture::{Captures, Evaluator, evaluate};
use crate::fire::fire;
use dtrace_abi::site::{Encoding, riscv64};

/// What a site holds. The target says whether there are 2-byte instructions: C, or of that at least what is not for
/// floating-point registers.
pub const ENCODING: Encoding = if cfg!(any(target_feature = "c", target_feature = "zca")) {
    riscv64::ENCODING
} else {
    riscv64::ENCODING_WITHOUT_C
};

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
                ".option push",
                ".option norvc",
                "77: nop",
                ".option pop",
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
                $("addi sp, sp, -16", ::core::concat!("sd {", ::core::stringify!($word), "}, 0(sp)"),)*
                "lla {__sdt_address}, {__sdt_probe}",
                "addi sp, sp, -16",
                "sd {__sdt_address}, 0(sp)",
                "call {__sdt_thunk}",
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
                $("addi sp, sp, -16",
                ::core::concat!("sd {", ::core::stringify!($low), "}, 0(sp)"),
                ::core::concat!("sd {", ::core::stringify!($high), "}, 8(sp)"),)*
                "call {__sdt_thunk}",
            )
            $($low = in(reg) $low, $high = in(reg) $high,)*
            __sdt_thunk = sym $thunk,
        }
    };
}

/// `asm!` in a cold block. In a kernel there are no floating-point or vector registers to lose.
#[cfg(not(any(target_feature = "f", target_feature = "v")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    ($sound:expr, ($($template:tt)*) $($operands:tt)*) => {{
        const _: $crate::__private::Sound = $sound;
        // SAFETY: the thunks preserve every general register but that of the return address, and leave
        // the stack as it was.
        unsafe { ::core::arch::asm!($($template)* $($operands)* out("ra") _) }
    }};
}

/// `asm!` in a cold block. Where the target has floating-point registers (user-land hosts), what is called may use
/// them, so they are clobbers: all that are caller-saved (RISC-V calling conventions, 1.0, 1.2 and 1.3), those of V
/// as well, because a single function can have it (`target_feature`) where the crate has not. vl, vtype and their
/// like are lost in any `asm!` without `preserves_flags`. Not fs0 to fs11, which the ABIs with D preserve; one that
/// passes nothing in floating-point registers, on a machine that has them, is no such host.
#[cfg(any(target_feature = "f", target_feature = "v"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    ($sound:expr, ($($template:tt)*) $($operands:tt)*) => {{
        const _: $crate::__private::Sound = $sound;
        // SAFETY: as above.
        unsafe {
            ::core::arch::asm!(
                $($template)*
                $($operands)*
                out("ra") _,
                out("ft0") _, out("ft1") _, out("ft2") _, out("ft3") _,
                out("ft4") _, out("ft5") _, out("ft6") _, out("ft7") _,
                out("ft8") _, out("ft9") _, out("ft10") _, out("ft11") _,
                out("fa0") _, out("fa1") _, out("fa2") _, out("fa3") _,
                out("fa4") _, out("fa5") _, out("fa6") _, out("fa7") _,
                out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                out("v8") _, out("v9") _, out("v10") _, out("v11") _,
                out("v12") _, out("v13") _, out("v14") _, out("v15") _,
                out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                out("v24") _, out("v25") _, out("v26") _, out("v27") _,
                out("v28") _, out("v29") _, out("v30") _, out("v31") _,
            )
        }
    }};
}

/// Sets up a frame, saves the registers a C function may change, runs `$call`, restores them, and returns over
/// `{taken}` bytes of stack. Keeps the frame chain: `stack()` finds, next to the framework's own
/// frames, this one, and then the function that fired. Below the saved registers is room for the slots of a hit:
/// mark, words, count.
macro_rules! preserving {
    ($($call:literal),*; $($operands:tt)*) => {
        naked_asm!(
            "addi sp, sp, -16",
            "sd ra, 8(sp)",
            "sd s0, 0(sp)",
            "addi s0, sp, 16",
            "addi sp, sp, -144",
            "sd t0, 0(sp)",
            "sd t1, 8(sp)",
            "sd t2, 16(sp)",
            "sd t3, 24(sp)",
            "sd t4, 32(sp)",
            "sd t5, 40(sp)",
            "sd t6, 48(sp)",
            "sd a0, 56(sp)",
            "sd a1, 64(sp)",
            "sd a2, 72(sp)",
            "sd a3, 80(sp)",
            "sd a4, 88(sp)",
            "sd a5, 96(sp)",
            "sd a6, 104(sp)",
            "sd a7, 112(sp)",
            $($call,)*
            "ld t0, 0(sp)",
            "ld t1, 8(sp)",
            "ld t2, 16(sp)",
            "ld t3, 24(sp)",
            "ld t4, 32(sp)",
            "ld t5, 40(sp)",
            "ld t6, 48(sp)",
            "ld a0, 56(sp)",
            "ld a1, 64(sp)",
            "ld a2, 72(sp)",
            "ld a3, 80(sp)",
            "ld a4, 88(sp)",
            "ld a5, 96(sp)",
            "ld a6, 104(sp)",
            "ld a7, 112(sp)",
            "addi sp, s0, -16",
            "ld ra, 8(sp)",
            "ld s0, 0(sp)",
            "addi sp, sp, 16 + {taken}",
            "ret",
            $($operands)*
        )
    };
}

/// Fires a probe with `N` arguments. On the stack, each in 16 bytes: the probe record, the words. They are
/// taken off. Preserves every general register but ra.
///
/// # Safety
/// Only for the assembly of `__sdt_call!`: it is no C function.
#[unsafe(naked)]
pub unsafe extern "C" fn thunk<const N: usize>() {
    preserving!(
        "ld a0, 0(s0)",
        "addi a1, s0, 16",
        "li a2, {count}",
        "mv a3, s0",
        "call {fire}";
        count = const N,
        fire = sym fire,
        taken = const 16 * (N + 1),
    )
}

/// Runs the evaluator of `F` over `C`. On the stack, from the return address up: `N` pairs of words, those of
/// the captures and, if it has a size, the closure. They are taken off. Preserves every general register but ra.
///
/// # Safety
/// Only for the assembly of `__sdt_evaluate!`: it is no C function.
#[unsafe(naked)]
pub unsafe extern "C" fn evaluate_thunk<C: Captures, F: Evaluator<C>, const N: usize>() {
    preserving!(
        "mv a0, s0",
        "mv a1, s0",
        "call {evaluate}";
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
        "addi sp, sp, -16",
        "sd ra, 8(sp)",
        "sd s0, 0(sp)",
        "mv s0, a0",
        "mv t1, a1",
        "mv a0, a2",
        "ld a1, 0(a3)",
        "ld a2, 8(a3)",
        "ld a4, 24(a3)",
        "ld a5, 32(a3)",
        "ld a6, 40(a3)",
        "ld a3, 16(a3)",
        "jalr t1",
        "ld ra, 8(sp)",
        "ld s0, 0(sp)",
        "addi sp, sp, 16",
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
        "addi sp, sp, -16",
        "sd ra, 8(sp)",
        "sd s0, 0(sp)",
        "mv s0, a3",
        "call {fire}",
        "ld ra, 8(sp)",
        "ld s0, 0(sp)",
        "addi sp, sp, 16",
        "ret",
        fire = sym fire,
    )
}

/// From a frame pointer: where the caller's is saved.
pub const NEXT_FRAME: isize = -16;

/// From a thunk's frame pointer: the last of the hit's slots, which go down from there.
pub const HIT_SLOTS: isize = -24;

/// The frame pointer of the function this is inlined into.
#[inline(always)]
pub fn frame_pointer() -> *const c_void {
    let frame;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}
