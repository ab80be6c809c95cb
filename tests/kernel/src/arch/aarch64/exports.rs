//! Symbols that only FreeBSD/arm64 has.

use core::ffi::c_void;

use sdt_core::patch::machine;

use super::paging;

crate::exports::exports! {
    // sys/arm64/include/machdep.h
    arm64_get_writable_addr: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> bool,
    // sys/arm64/include/cpufunc.h, where cpu_icache_sync_range() is a macro for it
    arm64_icache_sync_range: unsafe extern "C" fn(*mut c_void, usize),
}

/// As FreeBSD's: the address itself when it can be written to, or else the place in the direct map
/// where the same memory can; `false` when there is none.
///
/// # Safety
/// `writable` can be written to.
unsafe extern "C" fn arm64_get_writable_addr(
    address: *mut c_void,
    writable: *mut *mut c_void,
) -> bool {
    let Some(alias) = paging::writable(address as u64) else { return false };
    // SAFETY: the caller's contract.
    unsafe { writable.write(alias as *mut c_void) };
    true
}

/// Probe context.
///
/// # Safety
/// The range is mapped.
unsafe extern "C" fn arm64_icache_sync_range(address: *mut c_void, length: usize) {
    // SAFETY: the caller's contract.
    unsafe { machine::after_store(address as usize, length) };
}
