//! Interrupts of this CPU, by functions of `unix` (`usr/src/uts/intel/ml/i86_subr.S`, 2025) that fbt does not
//! instrument.

unsafe extern "C" {
    safe fn dtrace_interrupt_disable() -> usize;
    safe fn dtrace_interrupt_enable(cookie: usize);
}

/// Turns interrupts off. Returns their previous state. Any context.
#[inline(always)]
pub(super) fn interrupts_off() -> usize {
    dtrace_interrupt_disable()
}

/// Restores the state of interrupts. Any context.
#[inline(always)]
pub(super) fn interrupts_restore(cookie: usize) {
    dtrace_interrupt_enable(cookie);
}
