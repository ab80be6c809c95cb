//! Symbols that only FreeBSD/amd64 has.

use super::cpu;

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
pub(crate) fn variables() -> [(&'static str, u64); 0] {
    []
}
