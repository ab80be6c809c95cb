//! The symbols that only FreeBSD/amd64 has, and writing to text.

use sdt_core::patch::machine;

use crate::arch::cpu;

crate::exports::exports! {
    // sys/amd64/include/md_var.h
    disable_wp: unsafe extern "C" fn() -> bool,
    restore_wp: unsafe extern "C" fn(bool),
}

/// # Safety
/// See [`cpu::disable_wp`].
unsafe extern "C" fn disable_wp() -> bool {
    // SAFETY: the caller calls `restore_wp` before it enables interrupts.
    unsafe { cpu::disable_wp() }
}

/// # Safety
/// See [`cpu::restore_wp`].
unsafe extern "C" fn restore_wp(was_set: bool) {
    // SAFETY: the caller passes the result of `disable_wp` on this CPU.
    unsafe { cpu::restore_wp(was_set) }
}

/// The exported symbols that are not functions.
pub(in crate::freebsd) fn variables() -> [(&'static str, u64); 0] {
    []
}

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// Interrupts are off, the address is mapped text, and no other CPU executes it meanwhile.
pub(in crate::freebsd) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: the caller passes mapped text that no other CPU executes, with interrupts off; the closure writes nothing else.
    unsafe { machine::without_write_protection(|| machine::store(address as *mut u8, bytes)) };
}
