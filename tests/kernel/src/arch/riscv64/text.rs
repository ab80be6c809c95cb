//! Writing to text that CPUs execute.

/// What has to be done once text has been stored: nothing yet. `fence.i` works on its own hart only, so
/// each has to do it: see [`synchronise`].
///
/// # Safety
/// None here; elsewhere the addresses must be mapped.
pub(crate) unsafe fn stored(_address: usize, _length: usize) {}

/// Makes this hart execute text as it is now. Interrupts off, on each hart after the stores, which the
/// rendezvous has made visible to it: `fence.i` orders the hart's later fetches after all stores it can
/// see (the ISA manual, volume I, Zifencei).
pub(crate) fn synchronise() {
    riscv::asm::fence_i();
}

/// Writes to a file's text, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// The address is mapped text, and no other hart executes it meanwhile.
pub(crate) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    // SAFETY: by contract. A file's text can be written to here: see `paging`.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}
