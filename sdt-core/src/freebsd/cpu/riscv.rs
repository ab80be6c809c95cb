//! riscv: `sys/riscv/include/cpufunc.h`, main.

use core::arch::asm;

/// `SSTATUS_SIE`
const SIE: usize = 1 << 1;

/// Turns interrupts off on this hart (`intr_disable`). Returns their previous state.
#[inline(always)]
pub(crate) fn interrupts_off() -> usize {
    let status: usize;
    // Without `nomem`, so that the compiler moves no later access before it.
    // SAFETY: masks interrupts and nothing else.
    unsafe { asm!("csrrci {}, sstatus, {}", out(reg) status, const SIE, options(nostack)) };
    status & SIE
}

/// Restores the state of interrupts (`intr_restore`).
#[inline(always)]
pub(crate) fn interrupts_restore(status: usize) {
    // Without `nomem`, so that the compiler moves no earlier access behind it.
    // SAFETY: the instruction restores the bit that `interrupts_off` saved.
    unsafe { asm!("csrs sstatus, {}", in(reg) status, options(nostack)) };
}
