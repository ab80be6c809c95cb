//! Disables and enables the interrupts of this CPU, with DTrace's functions (`usr/src/uts/intel/ml/i86_subr.S`).

use x86_64::instructions::interrupts;
use x86_64::registers::rflags;

/// Turns interrupts off and returns the flags as they were. Any context.
pub(super) extern "C" fn dtrace_interrupt_disable() -> usize {
    let flags = rflags::read_raw();
    interrupts::disable();
    flags as usize
}

/// Restores all flags, including the interrupt flag, to the result of [`dtrace_interrupt_disable`]. Any context.
///
/// # Safety
/// `flags` is the result of [`dtrace_interrupt_disable`] on this CPU.
pub(super) unsafe extern "C" fn dtrace_interrupt_enable(flags: usize) {
    // SAFETY: `flags` are those that `dtrace_interrupt_disable` returned on this CPU.
    unsafe { rflags::write_raw(flags as u64) };
}
