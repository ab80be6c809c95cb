//! arm64: `sys/arm64/include/cpufunc.h`, main.

use core::arch::asm;

/// Turns interrupts off on this CPU (`intr_disable`). Returns their previous state.
#[inline(always)]
pub(crate) fn interrupts_off() -> usize {
    let daif;
    // Without `nomem`, so that the compiler moves no later access before it.
    // SAFETY: masks interrupts and nothing else.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) daif, options(nostack)) };
    daif
}

/// Restores the state of interrupts (`intr_restore`).
#[inline(always)]
pub(crate) fn interrupts_restore(daif: usize) {
    // Without `nomem`, so that the compiler moves no earlier access behind it.
    // SAFETY: the instruction restores the mask that `interrupts_off` saved.
    unsafe { asm!("msr daif, {}", in(reg) daif, options(nostack)) };
}
