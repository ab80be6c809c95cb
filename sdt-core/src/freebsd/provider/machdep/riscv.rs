//! riscv: `sys/riscv/include/frame.h`, `sys/cddl/dev/dtrace/riscv/dtrace_subr.c`, main.

use core::arch::asm;
use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU16, Ordering};

use static_assertions::const_assert_eq;

/// `struct trapframe`.
#[repr(C)]
pub(crate) struct TrapFrame {
    ra: u64,
    sp: u64,
    /// `tf_gp` to `tf_a`.
    before: [u64; 29],
    sepc: u64,
    sstatus: u64,
    stval: u64,
    scause: u64,
}

const_assert_eq!(size_of::<TrapFrame>(), 280);
const_assert_eq!(offset_of!(TrapFrame, sp), 8);
const_assert_eq!(offset_of!(TrapFrame, sepc), 248);
const_assert_eq!(offset_of!(TrapFrame, stval), 264);

/// Makes the exception return to `resume`, and returns the instruction that the kernel has to emulate for that.
///
/// All versions of `dtrace_invop_start` that were read emulate `sd ra, 0(sp)` and then add 4 to `tf_sepc` (13.0-CURRENT of
/// 1300010, 13.0-RELEASE, a stable tree from after August 2023, main). The store must not harm anything: `tf_sp` sends it to
/// `tf_stval`, which the kernel does not read again. The kernel does not read `tf_sp` again either: a trap in the kernel returns
/// with the stack pointer above the frame (`load_registers 1` in `sys/riscv/riscv/exception.S` of 1300010, 13.0-RELEASE, main),
/// and `dtrace_invop` is called for traps in the kernel only. A `c.nop` is not sufficient: of those trees only main emulates it,
/// the others panic.
pub(crate) fn redirect(frame: &mut TrapFrame, resume: usize) -> c_int {
    /// `sd ra, 0(sp)`
    const STORE_RA: c_int = 0x0011_3023;
    /// The number that the kernel adds to `tf_sepc` for it: `INSN_SIZE`.
    const LENGTH: usize = 4;
    frame.sepc = (resume - LENGTH) as u64;
    frame.sp = &raw const frame.stval as u64;
    STORE_RA
}

/// Returns true: the kernel can write to its own text and to that of its modules.
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
        // SAFETY: halves of a site's instruction, at even addresses, by the contract of this function.
        unsafe { AtomicU16::from_ptr(at) }.store(u16::from_le_bytes(*half), Ordering::SeqCst);
    }
}

/// Makes this hart execute the current text: `fence.i` orders only its own fetches after the stores it sees (Zifencei).
pub(crate) fn on_this_cpu() {
    // SAFETY: the instruction is a fence.
    unsafe { asm!("fence.i", options(nostack, preserves_flags)) };
}
