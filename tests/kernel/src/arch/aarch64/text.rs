//! Writing to text that CPUs execute.

use aarch64_cpu::asm::barrier::{SY, isb};

use super::{cache, paging};

/// Makes text that has just been stored what CPUs fetch: instruction caches do not follow stores. The
/// address is the one it is executed at: what both caches are told goes by its physical address.
///
/// # Safety
/// The addresses are mapped.
pub(crate) unsafe fn stored(address: usize, length: usize) {
    // SAFETY: the caller's contract.
    unsafe { cache::sync_instructions(address as u64, length) };
}

/// Makes this CPU forget what it has fetched ahead, so that it executes text as it is now. Interrupts
/// off, on each CPU after the stores: the invalidation of [`stored`] reaches all instruction caches, but
/// not what a CPU has taken out of its cache already (Arm ARM B2.4.4).
pub(crate) fn synchronise() {
    isb(SY);
}

/// Writes to a file's text, as `sdt_tracepoint_patch` does: by an alias that can be written to.
///
/// # Safety
/// The address is mapped text, and no other CPU executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    let alias = paging::writable(address).expect("text has an alias") as *mut u8;
    // SAFETY: by contract.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), alias, bytes.len());
        cache::sync_instructions(address, bytes.len());
    }
}
