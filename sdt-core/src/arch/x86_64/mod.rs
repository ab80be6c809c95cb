//! x86_64: a site is one 5-byte nop, its breakpoint is `int3` over the first byte. (illumos's linker makes sites of
//! its own kind: see `illumos.rs`.)

use core::arch::asm;
use core::ffi::c_void;

pub use dtrace_abi::site::x86_64::ENCODING;

/// Distance of two arguments on the stack, in words.
pub const WORD_STRIDE: usize = 1;

/// Distance in bytes from a site's address to the program counter that a breakpoint there saves.
pub const BREAKPOINT_LEN: usize = 1;

/// `asm!` in a cold block, for targets without vector registers, such as kernels.
#[cfg(not(target_feature = "sse"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    (($($template:tt)*) $($operands:tt)*) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunks preserve every general register and leave the stack as it was.
        unsafe { ::core::arch::asm!($($template)* $($operands)*) }
    }};
}

/// `asm!` in a cold block, on targets with vector registers (tests, user-land hosts). The called functions may use
/// them, so they are clobbers. This includes the registers of AVX-512, x87 and AMX, because a single function can use
/// them (`target_feature`) even if the crate does not. All of them are caller-saved by the System V ABI for AMD64 (1.0,
/// 3.2.3). So the compiler saves none of them on the hot path, and spills live values here in the cold block.
#[cfg(target_feature = "sse")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_asm {
    (($($template:tt)*) $($operands:tt)*) => {{
        const _: $crate::__private::Promise = __SDT_PROMISE;
        // SAFETY: the thunks preserve every general register and leave the stack as it was.
        unsafe {
            ::core::arch::asm!(
                $($template)*
                $($operands)*
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _,
                out("xmm20") _, out("xmm21") _, out("xmm22") _, out("xmm23") _,
                out("xmm24") _, out("xmm25") _, out("xmm26") _, out("xmm27") _,
                out("xmm28") _, out("xmm29") _, out("xmm30") _, out("xmm31") _,
                out("k0") _, out("k1") _, out("k2") _, out("k3") _,
                out("k4") _, out("k5") _, out("k6") _, out("k7") _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                out("mm0") _, out("mm1") _, out("mm2") _, out("mm3") _,
                out("mm4") _, out("mm5") _, out("mm6") _, out("mm7") _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            )
        }
    }};
}

/// The pieces of assembly of the thunks (`thunk.rs`), except those of `site_piece!`.
macro_rules! piece {
    (enter) => {
        "push rbp
        mov rbp, rsp
        sub rsp, 24
        push rax
        push rcx
        push rdx
        push rsi
        push rdi
        push r8
        push r9
        push r10
        push r11
        and rsp, -16"
    };
    (leave) => {
        "lea rsp, [rbp - 96]
        pop r11
        pop r10
        pop r9
        pop r8
        pop rdi
        pop rsi
        pop rdx
        pop rcx
        pop rax
        mov rsp, rbp
        pop rbp
        ret {taken}"
    };
    ($of_sites:ident) => {
        $crate::arch::site_piece!($of_sites)
    };
}
pub(crate) use piece;

#[cfg_attr(sdt_site = "call", path = "illumos.rs")]
#[cfg_attr(not(sdt_site = "call"), path = "patched.rs")]
mod sites;
pub(crate) use sites::site_piece;
#[cfg(sdt_site = "call")]
pub use sites::*;
pub(crate) use sites::{EVALUATE_BESIDES, FIRE_BESIDES};

/// Offset from a frame pointer to the saved frame pointer of the caller.
pub const NEXT_FRAME: isize = 0;

/// Offset from a thunk's frame pointer to the last slot of the hit. The other slots are below it.
pub const HIT_SLOTS: isize = -8;

/// Returns the frame pointer of the function into which this is inlined.
#[inline(always)]
pub fn frame_pointer() -> *const c_void {
    let frame;
    // SAFETY: the instruction only reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}
