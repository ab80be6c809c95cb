//! riscv: `sys/riscv/include/cpufunc.h`, main.

use core::arch::asm;

/// `SSTATUS_SIE`
const SIE: usize = 1 << 1;

/// Turns interrupts off on this hart (`intr_disable`); how they were.
#[inline(always)]
pub(crate) fn interrupts_off() -> usize {
    let status: usize;
    // Without `nomem`: what follows must not be moved out.
    // SAFETY: masks interrupts and nothing else.
    unsafe { asm!("csrrci {}, sstatus, {}", out(reg) status, const SIE, options(nostack)) };
    status & SIE
}

/// Puts interrupts back as they were (`intr_restore`).
#[inline(always)]
pub(crate) fn interrupts_restore(status: usize) {
    // Without `nomem`: what went before must not be moved out.
    // SAFETY: as they were.
    unsafe { asm!("csrs sstatus, {}", in(reg) status, options(nostack)) };
}
