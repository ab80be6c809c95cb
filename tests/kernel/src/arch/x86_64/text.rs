//! Writing to text that CPUs execute.

use sdt_core::patch::machine;

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// Interrupts are off, the address is mapped text, and no other CPU executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: the caller passes mapped text that no other CPU executes, with interrupts off; the closure writes nothing else.
    unsafe { machine::without_write_protection(|| machine::store(address as *mut u8, bytes)) };
}
