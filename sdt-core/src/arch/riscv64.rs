//! riscv64: a site is one 4-byte nop, its breakpoint is `c.ebreak` over the first half.

use core::arch::{asm, naked_asm};
use core::ffi::c_void;

use crate::capture::{Captures, Frame, evaluate};
use crate::fire::fire;
use crate::hit::MARK;

pub use crate::encode::riscv64::ENCODING;

/// Bytes of a site.
pub const SITE_LEN: usize = 4;

/// Words apart that arguments lie on the stack, whose pointer has to stay a multiple of 16.
pub const WORD_STRIDE: usize = 2;

/// How far behind a site's address the saved program counter points after a breakpoint there.
pub const BREAKPOINT_LEN: usize = 0;

/// The firing site: the nop, its record in the set of sites, and the cold block it leads to.
///
/// `nomem`, because the site itself touches nothing (the cold block is ordinary code the compiler
/// sees); `nostack` and `preserves_flags` likewise. Not `pure`: a site must not be merged with
/// another or dropped. Numeric label, because the site is duplicated wherever it is inlined.
#[cfg(sdt_site = "patched")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_site {
    ($probe:path, $symbol:literal, $cold:block) => {
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
    };
}

/// Hands the words over and calls the thunk: probe and words go onto the stack, the last word first,
/// and the thunk takes them off. No register is named but the one that a call changes anyway.
///
/// Without `nostack`, `preserves_flags`, `nomem` or `readonly`: it pushes, the thunk does not keep flags,
/// consumers read what arguments point to, and the framework writes.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_call {
    ($count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {
        $crate::__sdt_asm! {
            (
                $("addi sp, sp, -16", ::core::concat!("sd {", ::core::stringify!($word), "}, 0(sp)"),)*
                "lla {__sdt_address}, {__sdt_probe}",
                "addi sp, sp, -16",
                "sd {__sdt_address}, 0(sp)",
                "call {__sdt_thunk}",
            )
            $($word = in(reg) $word,)*
            __sdt_address = out(reg) _,
            __sdt_probe = sym $probe,
            __sdt_thunk = sym $crate::arch::thunk::<$count>,
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
    ($thunk:path, $landing:ident, [$(($low:ident, $high:ident))*]) => {
        $crate::__sdt_asm! {
            (
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

/// `asm!` in a cold block. In a kernel there are no vector registers to lose; where the target has
/// them (user-land hosts), what is called may use them, so they are clobbers.
#[cfg(not(target_feature = "d"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    (($($template:tt)*) $($operands:tt)*) => {
        // SAFETY: the thunks preserve every general register but that of the return address, and leave
        // the stack as it was.
        unsafe { ::core::arch::asm!($($template)* $($operands)* out("ra") _) }
    };
}

/// See the variant without vector registers.
#[cfg(target_feature = "d")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    (($($template:tt)*) $($operands:tt)*) => {
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
            )
        }
    };
}

/// Sets up a frame, saves the registers a C function may change, runs `$call`, restores them, and returns over
/// `{taken}` bytes of stack. Keeps the frame chain: `stack()` finds, next to the framework's own
/// frames, this one, and then the function that fired. Below the saved registers are the slots of a hit: mark,
/// words, count.
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
            "li t0, {mark}",
            "xor t0, t0, s0",
            "sd t0, -24(s0)",
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
            mark = const MARK,
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
        "sd a1, -32(s0)",
        "sd a2, -40(s0)",
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
pub unsafe extern "C" fn evaluate_thunk<C: Captures, F: Fn(C::Places, Frame), const N: usize>() {
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
#[cfg(sdt_route = "freebsd")]
#[unsafe(naked)]
pub unsafe extern "C" fn call_from(
    frame: *const c_void,
    function: *const (),
    id: u32,
    args: *const [u64; 6],
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
#[cfg(sdt_route = "registry")]
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
        "sd a1, -32(s0)",
        "sd a2, -40(s0)",
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
