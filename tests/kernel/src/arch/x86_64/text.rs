//! Writing to text that CPUs execute.

use sdt_core::patch::machine;

/// Does nothing: text is written to with CR0.WP clear, in all releases.
pub(crate) fn allow_stores(_address: u64, _pages: usize) {}

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// Interrupts are off, the address is mapped text, and no other CPU executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: by contract; in between nothing else is written.
    unsafe { machine::without_write_protection(|| machine::store(address as *mut u8, bytes)) };
}
