//! Writing to text that CPUs execute.

use core::arch::x86_64::__cpuid;

use super::cpu;

/// What has to be done once text has been stored: nothing. Instruction caches follow stores by whatever
/// address they are made (Intel SDM volume 3, 12.6, self-modifying code).
///
/// # Safety
/// None here; elsewhere the addresses must be mapped.
pub(crate) unsafe fn stored(_address: usize, _length: usize) {}

/// Makes this CPU forget what it has fetched ahead, so that it executes text as it is now. Interrupts
/// off, on each CPU after the stores.
///
/// Other CPUs may have the old bytes in their pipelines until they serialise (SDM volume 3, 9.1.3,
/// cross-modifying code). Returning from the interrupt does that (`iret`); `cpuid` does it for the CPU
/// that has sent it and takes none.
pub(crate) fn synchronise() {
    __cpuid(0);
}

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// Interrupts are off, the address is mapped text, and no other CPU executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: by contract; between the two nothing else is written.
    unsafe {
        let protected = cpu::disable_wp();
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len());
        cpu::restore_wp(protected);
    }
}
