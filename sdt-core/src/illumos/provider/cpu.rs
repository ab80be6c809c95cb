//! Interrupts of this CPU, by functions of `unix` (`usr/src/uts/intel/ml/i86_subr.S`, 2025) that fbt does not
//! instrument.

unsafe extern "C" {
    safe fn dtrace_interrupt_disable() -> usize;
    safe fn dtrace_interrupt_enable(cookie: usize);
}

/// Turns interrupts off; how they were. Any context.
#[inline(always)]
pub(super) fn interrupts_off() -> usize {
    dtrace_interrupt_disable()
}

/// Puts interrupts back as they were. Any context.
#[inline(always)]
pub(super) fn interrupts_restore(cookie: usize) {
    dtrace_interrupt_enable(cookie);
}
