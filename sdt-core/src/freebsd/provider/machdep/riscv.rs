//! riscv: `sys/riscv/include/frame.h`, `sys/cddl/dev/dtrace/riscv/dtrace_subr.c`, main.

use core::arch::asm;
use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU16, Ordering};

use static_assertions::const_assert_eq;

/// `struct trapframe`.
#[repr(C)]
pub(crate) struct TrapFrame {
    /// `tf_ra` to `tf_a`.
    before: [u64; 31],
    sepc: u64,
    /// `tf_sstatus` to `tf_scause`.
    after: [u64; 3],
}

const_assert_eq!(size_of::<TrapFrame>(), 280);
const_assert_eq!(offset_of!(TrapFrame, sepc), 248);

/// Makes the exception return to `resume`; what the handler has to return for that.
pub(crate) fn redirect(frame: &mut TrapFrame, resume: usize) -> c_int {
    /// `c.nop`: the kernel returns to the frame's program counter as the handler left it.
    const C_NOP: c_int = 1;
    frame.sepc = resume as u64;
    C_NOP
}

/// Whether text can be written to: the kernel's and its modules' can.
pub(crate) fn is_writable(_: usize, _: usize) -> bool {
    true
}

/// Stores halfwords of text.
///
/// # Safety
/// As [`Patcher::store`](crate::patch::Patcher::store).
pub(crate) unsafe fn store(address: usize, bytes: &[u8]) {
    for (i, half) in bytes.as_chunks().0.iter().enumerate() {
        let at = (address + 2 * i) as *mut u16;
        // SAFETY: by contract halves of a site's instruction, at even addresses.
        unsafe { AtomicU16::from_ptr(at) }.store(u16::from_le_bytes(*half), Ordering::SeqCst);
    }
}

/// What every hart does to execute text as it is now: `fence.i` orders only its own fetches after the stores
/// it sees (Zifencei).
pub(crate) fn on_this_cpu() {
    // SAFETY: a fence.
    unsafe { asm!("fence.i", options(nostack, preserves_flags)) };
}
