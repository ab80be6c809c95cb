//! amd64: `sys/amd64/include/cpufunc.h`, main.

use core::arch::asm;

/// Turns interrupts off on this CPU (`intr_disable`); how they were.
#[inline(always)]
pub(crate) fn interrupts_off() -> usize {
    let flags;
    // Without `nomem`: what follows must not be moved out.
    // SAFETY: no effect on memory or registers but the flags.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
    flags
}

/// Puts interrupts back as they were (`intr_restore`).
#[inline(always)]
pub(crate) fn interrupts_restore(flags: usize) {
    // Without `nomem`: what went before must not be moved out.
    // SAFETY: as they were.
    unsafe { asm!("push {}", "popfq", in(reg) flags) };
}
