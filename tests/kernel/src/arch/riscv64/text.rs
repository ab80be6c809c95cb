//! Writing to text that CPUs execute.

use sdt_core::patch::machine;

/// Does nothing: a file's text can be written to where it is executed in all releases; see `paging`.
pub(crate) fn allow_stores(_address: u64, _pages: usize) {}

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// The address is mapped text, and no other hart executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: by contract. A file's text can be written to here: see `paging`.
    unsafe { machine::store(address as *mut u8, bytes) };
}
