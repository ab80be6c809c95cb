//! Writing to text that CPUs execute.

use sdt_core::patch::machine;

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// The address is mapped text, and no other hart executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: the caller passes mapped text that no other hart executes; a file's text can be written to, see `layout::CODE`.
    unsafe { machine::store(address as *mut u8, bytes) };
}
