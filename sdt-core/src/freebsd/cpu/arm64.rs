//! arm64: `sys/arm64/include/cpufunc.h`, main.

use core::arch::asm;

/// Turns interrupts off on this CPU (`intr_disable`); how they were.
#[inline(always)]
pub(crate) fn interrupts_off() -> usize {
    let daif;
    // Without `nomem`: what follows must not be moved out.
    // SAFETY: masks interrupts and nothing else.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) daif, options(nostack)) };
    daif
}

/// Puts interrupts back as they were (`intr_restore`).
#[inline(always)]
pub(crate) fn interrupts_restore(daif: usize) {
    // Without `nomem`: what went before must not be moved out.
    // SAFETY: as they were.
    unsafe { asm!("msr daif, {}", in(reg) daif, options(nostack)) };
}
