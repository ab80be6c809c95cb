//! amd64: `sys/amd64/include/cpufunc.h`, main.

use core::arch::asm;

/// Turns interrupts off on this CPU (`intr_disable`). Returns their previous state.
#[inline(always)]
pub(crate) fn interrupts_off() -> usize {
    let flags;
    // Without `nomem`, so that the compiler moves no later access before it.
    // SAFETY: the instructions change only the flags.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
    flags
}

/// Restores the state of interrupts (`intr_restore`).
#[inline(always)]
pub(crate) fn interrupts_restore(flags: usize) {
    // Without `nomem`, so that the compiler moves no earlier access behind it.
    // SAFETY: the instructions restore the flags that `interrupts_off` saved.
    unsafe { asm!("push {}", "popfq", in(reg) flags) };
}
