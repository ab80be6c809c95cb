//! Writing to text that CPUs execute.

use sdt_core::patch::machine;

use crate::arch::paging;

/// Writes to a file's text, as `sdt_tracepoint_patch` does: by an alias that can be written to.
///
/// # Safety
/// The address is mapped text, and no other CPU executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    let alias = paging::writable(address).expect("text has an alias") as *mut u8;
    // SAFETY: the caller passes mapped text that no other CPU executes, and `writable` returned an alias of it.
    unsafe {
        machine::store(alias, bytes);
        machine::after_store(address as usize, bytes.len());
    }
}
