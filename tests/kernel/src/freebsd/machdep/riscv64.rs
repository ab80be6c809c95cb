//! The symbols that only FreeBSD/riscv has, and writing to text. Modules need no such symbols: `fence_i()` and similar functions
//! are inline (`sys/riscv/include/cpufunc.h`), and plain stores write to text.

use sdt_core::patch::machine;

crate::exports::exports! {}

/// The exported symbols that are not functions.
pub(in crate::freebsd) fn variables() -> [(&'static str, u64); 0] {
    []
}

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// The address is mapped text, and no other hart executes it meanwhile.
pub(in crate::freebsd) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: the caller passes mapped text that no other hart executes; a file's text can be written to, see [`CODE`](crate::arch::layout::CODE).
    unsafe { machine::store(address as *mut u8, bytes) };
}
