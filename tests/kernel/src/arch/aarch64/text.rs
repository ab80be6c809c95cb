//! Writing to text that CPUs execute.

use sdt_core::patch::machine;

use super::paging;

/// Makes a file's text writable where it is executed, too, for the releases that have it so.
pub(crate) fn allow_stores(address: u64, pages: usize) {
    paging::allow_stores(address, pages);
}

/// Writes to a file's text, as `sdt_tracepoint_patch` does: by an alias that can be written to.
///
/// # Safety
/// The address is mapped text, and no other CPU executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    let alias = paging::writable(address).expect("text has an alias") as *mut u8;
    // SAFETY: by contract.
    unsafe {
        machine::store(alias, bytes);
        machine::after_store(address as usize, bytes.len());
    }
}
