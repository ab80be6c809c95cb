//! amd64: `sys/x86/include/frame.h`, `sys/cddl/dev/dtrace/amd64/dtrace_asm.S`, main.

use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, Ordering};

use static_assertions::const_assert_eq;

use crate::freebsd::cpu;

/// `struct trapframe`.
#[repr(C)]
pub(crate) struct TrapFrame {
    /// `tf_rdi` to `tf_err`.
    before: [u64; 19],
    rip: u64,
    /// `tf_cs` to `tf_ss`.
    after: [u64; 4],
}

const_assert_eq!(size_of::<TrapFrame>(), 192);
const_assert_eq!(offset_of!(TrapFrame, rip), 152);

/// Makes the exception return to `resume`. Returns the value that the handler must return.
pub(crate) fn redirect(frame: &mut TrapFrame, resume: usize) -> c_int {
    /// "Emulate a nop": `bp_nop` returns to the frame's program counter as the handler left it.
    const DTRACE_INVOP_NOP: c_int = 4;
    frame.rip = resume as u64;
    DTRACE_INVOP_NOP
}

// Write protection of this CPU: functions of the kernel since 12 (`sys/x86/x86/cpu_machdep.c`).
#[cfg(sdt_freebsd_since = "12")]
unsafe extern "C" {
    // Clears CR0.WP on this CPU; returns whether it was set.
    safe fn disable_wp() -> bool;
    // Sets CR0.WP on this CPU if `wp`.
    safe fn restore_wp(wp: bool);
}

#[cfg(not(sdt_freebsd_since = "12"))]
use write_protection::{disable_wp, restore_wp};

/// Clears and sets the write protection of CR0 on FreeBSD 11, which has no functions for this.
#[cfg(not(sdt_freebsd_since = "12"))]
mod write_protection {
    use core::arch::asm;

    /// `CR0_WP`
    const WP: u64 = 1 << 16;

    /// Clears CR0.WP on this CPU; returns whether it was set.
    pub(super) fn disable_wp() -> bool {
        let cr0: u64;
        // SAFETY: the instruction only reads a register.
        unsafe { asm!("mov {}, cr0", out(reg) cr0, options(nostack, preserves_flags)) };
        // Without `nomem`: stores are not to be moved across it.
        // SAFETY: this lets the kernel's stores ignore its page protection until `restore_wp`; interrupts are off
        // meanwhile (`store`).
        unsafe { asm!("mov cr0, {}", in(reg) cr0 & !WP, options(nostack, preserves_flags)) };
        cr0 & WP != 0
    }

    /// Sets CR0.WP on this CPU if `wp`.
    pub(super) fn restore_wp(wp: bool) {
        let cr0: u64;
        // SAFETY: the instruction only reads a register.
        unsafe { asm!("mov {}, cr0", out(reg) cr0, options(nostack, preserves_flags)) };
        let cr0 = if wp { cr0 | WP } else { cr0 };
        // SAFETY: restores the value before `disable_wp`.
        unsafe { asm!("mov cr0, {}", in(reg) cr0, options(nostack, preserves_flags)) };
    }
}

/// Returns whether text can be written: with CR0.WP clear, all mapped text can.
pub(crate) fn is_writable(_: usize, _: usize) -> bool {
    true
}

/// Stores bytes of text, like fbt, with write protection off on this CPU.
///
/// # Safety
/// As [`Patcher::store`](crate::patch::Patcher::store).
pub(crate) unsafe fn store(address: usize, bytes: &[u8]) {
    // So that this CPU does not run other code while CR0.WP is clear, and this thread is not moved to
    // a CPU on which it is set.
    let interrupts = cpu::interrupts_off();
    let wp = disable_wp();
    for (i, &byte) in bytes.iter().enumerate() {
        // Only one byte changes while other CPUs execute the text; each byte is one store.
        // SAFETY: bytes of a site, by the contract of this function; while CR0.WP is clear the kernel can write to them.
        unsafe { AtomicU8::from_ptr((address + i) as *mut u8) }.store(byte, Ordering::SeqCst);
    }
    restore_wp(wp);
    cpu::interrupts_restore(interrupts);
}

/// Makes this CPU execute the current text: does nothing, because the return from the interrupt that called this
/// serialises (Intel SDM volume 3, 9.3).
pub(crate) fn on_this_cpu() {}
