//! riscv64: a site is one 4-byte nop, its breakpoint is `c.ebreak` over the first half, or, without the C extension,
//! `ebreak`.

use core::arch::asm;
use core::ffi::c_void;

use dtrace_abi::site::{Encoding, riscv64};

/// The instructions of a site. The target has 2-byte instructions if it has the extension C, or at least Zca, the part
/// of C without floating-point instructions.
pub const ENCODING: Encoding = if cfg!(any(target_feature = "c", target_feature = "zca")) {
    riscv64::ENCODING
} else {
    riscv64::ENCODING_WITHOUT_C
};

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
    (@nop) => { ".option push\n.option norvc\n77: nop\n.option pop" };
    (@call $count:literal, $probe:path, $symbol:literal, [$($word:ident)*]) => {
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
            __sdt_thunk = sym $crate::__private::thunk::thunk::<$count>,
        }
    };
    (@evaluate $thunk:path, $trampoline:ident, [$(($low:ident, $high:ident))*]) => {
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

/// `asm!` in a cold block, for targets without floating-point and vector registers, such as kernels.
#[cfg(not(any(target_feature = "f", target_feature = "v")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    (($($template:tt)*) $($operands:tt)*) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunks (`thunk.rs`) preserve every general register except ra, a clobber, and restore the stack
        // pointer.
        unsafe { ::core::arch::asm!($($template)* $($operands)* out("ra") _) }
    }};
}

/// `asm!` in a cold block, on targets with floating-point registers (user-land hosts). The called functions may use
/// them, so all caller-saved ones are clobbers (RISC-V calling conventions, 1.0, 1.2 and 1.3). This includes the
/// registers of V, because a single function can use it (`target_feature`) even if the crate does not. Every `asm!`
/// without `preserves_flags` clobbers vl, vtype and similar registers. fs0 to fs11 are not clobbers, because the ABIs
/// with D preserve them; hosts with floating-point registers and an ABI without them are not supported.
#[cfg(any(target_feature = "f", target_feature = "v"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    (($($template:tt)*) $($operands:tt)*) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunks (`thunk.rs`) preserve every general register except ra, a clobber, and restore the stack
        // pointer.
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

/// The pieces of assembly of the thunks (`thunk.rs`).
macro_rules! piece {
    (enter) => {
        "addi sp, sp, -16
        sd ra, 8(sp)
        sd s0, 0(sp)
        addi s0, sp, 16
        addi sp, sp, -144
        sd t0, 0(sp)
        sd t1, 8(sp)
        sd t2, 16(sp)
        sd t3, 24(sp)
        sd t4, 32(sp)
        sd t5, 40(sp)
        sd t6, 48(sp)
        sd a0, 56(sp)
        sd a1, 64(sp)
        sd a2, 72(sp)
        sd a3, 80(sp)
        sd a4, 88(sp)
        sd a5, 96(sp)
        sd a6, 104(sp)
        sd a7, 112(sp)"
    };
    (leave) => {
        "ld t0, 0(sp)
        ld t1, 8(sp)
        ld t2, 16(sp)
        ld t3, 24(sp)
        ld t4, 32(sp)
        ld t5, 40(sp)
        ld t6, 48(sp)
        ld a0, 56(sp)
        ld a1, 64(sp)
        ld a2, 72(sp)
        ld a3, 80(sp)
        ld a4, 88(sp)
        ld a5, 96(sp)
        ld a6, 104(sp)
        ld a7, 112(sp)
        addi sp, s0, -16
        ld ra, 8(sp)
        ld s0, 0(sp)
        addi sp, sp, 16 + {taken}
        ret"
    };
    (fire) => {
        "ld a0, 0(s0)
        addi a1, s0, 16
        li a2, {count}
        mv a3, s0
        call {function}"
    };
    (evaluate) => {
        "mv a0, s0
        mv a1, s0
        call {function}"
    };
    (fire_at) => {
        "addi sp, sp, -16
        sd ra, 8(sp)
        sd s0, 0(sp)
        mv s0, a3
        call {function}
        ld ra, 8(sp)
        ld s0, 0(sp)
        addi sp, sp, 16
        ret"
    };
    (call_from) => {
        "addi sp, sp, -16
        sd ra, 8(sp)
        sd s0, 0(sp)
        mv s0, a0
        mv t1, a1
        mv a0, a2
        ld a1, 0(a3)
        ld a2, 8(a3)
        ld a4, 24(a3)
        ld a5, 32(a3)
        ld a6, 40(a3)
        ld a3, 16(a3)
        jalr t1
        ld ra, 8(sp)
        ld s0, 0(sp)
        addi sp, sp, 16
        ret"
    };
}
pub(crate) use piece;

/// Bytes on the stack that `@call` pushes besides the words: the probe's record.
pub(crate) const FIRE_BESIDES: usize = 16;

/// Bytes on the stack that `@evaluate` pushes besides the words.
pub(crate) const EVALUATE_BESIDES: usize = 0;

/// Offset from a frame pointer to the saved frame pointer of the caller.
pub const NEXT_FRAME: isize = -16;

/// Offset from a thunk's frame pointer to the last slot of the hit. The other slots are below it.
pub const HIT_SLOTS: isize = -24;

/// Returns the frame pointer of the function into which this is inlined.
#[inline(always)]
pub fn frame_pointer() -> *const c_void {
    let frame;
    // SAFETY: the instruction only reads a register.
    unsafe { asm!("mv {}, s0", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}
