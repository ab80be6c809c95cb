//! Interrupts of this CPU, as DTrace turns them off and on (`usr/src/uts/intel/ml/i86_subr.S`).

use x86_64::instructions::interrupts;
use x86_64::registers::rflags;

/// Turns interrupts off and returns the flags as they were. Any context.
pub(super) extern "C" fn dtrace_interrupt_disable() -> usize {
    let flags = rflags::read_raw();
    interrupts::disable();
    flags as usize
}

/// Puts all flags back as [`dtrace_interrupt_disable`] found them, the one for interrupts among them. Any context.
///
/// # Safety
/// `flags` is what that function returned on this CPU.
pub(super) unsafe extern "C" fn dtrace_interrupt_enable(flags: usize) {
    // SAFETY: `flags` are those that `dtrace_interrupt_disable` returned on this CPU.
    unsafe { rflags::write_raw(flags as u64) };
}
