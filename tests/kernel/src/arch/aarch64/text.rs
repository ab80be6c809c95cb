//! Writing to text that CPUs execute.

use aarch64_cpu::asm::barrier::{SY, isb};

use super::cache;

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
