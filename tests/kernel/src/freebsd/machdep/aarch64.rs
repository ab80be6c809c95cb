//! The symbols that only FreeBSD/arm64 has, and writing to text.

use core::ffi::c_void;
use core::sync::atomic::AtomicPtr;

use sdt_core::patch::machine;

use crate::paging;

crate::exports::exports! {
    // sys/arm64/include/machdep.h
    arm64_get_writable_addr: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> bool,
    // sys/arm64/include/cpufunc.h, where cpu_icache_sync_range() is a macro for it; in some releases a variable
    arm64_icache_sync_range: unsafe extern "C" fn(*mut c_void, usize),
}

/// The exported symbols that are not functions.
pub(in crate::freebsd) fn variables() -> [(&'static str, u64); 1] {
    [("arm64_icache_sync_range", &raw const SYNC_RANGE as u64)]
}

/// 13.0-RELEASE's `arm64_icache_sync_range`, which holds the address of a function (`sys/arm64/include/cpufunc.h`).
static SYNC_RANGE: AtomicPtr<()> = AtomicPtr::new(arm64_icache_sync_range as *mut ());

/// Stores a writable address of the memory at `address` to `writable`: `address` itself if it is writable, otherwise its alias in
/// the direct map. Returns `false` if there is none.
///
/// # Safety
/// `writable` points to writable memory for a pointer.
unsafe extern "C" fn arm64_get_writable_addr(
    address: *mut c_void,
    writable: *mut *mut c_void,
) -> bool {
    let Some(alias) = paging::writable(address as u64) else { return false };
    // SAFETY: the caller passes a place for a pointer.
    unsafe { writable.write(alias as *mut c_void) };
    true
}

/// Makes the CPUs execute the instructions that were stored to a range. Probe context.
///
/// # Safety
/// The range is mapped.
unsafe extern "C" fn arm64_icache_sync_range(address: *mut c_void, length: usize) {
    // SAFETY: the caller passes a mapped range.
    unsafe { machine::after_store(address as usize, length) };
}

/// Writes to a file's text through a writable alias, as `sdt_tracepoint_patch` does.
///
/// # Safety
/// The address is mapped text, and no other CPU executes it meanwhile.
pub(in crate::freebsd) unsafe fn overwrite(address: u64, bytes: &[u8]) {
    let alias = paging::writable(address).expect("text has an alias") as *mut u8;
    // SAFETY: the caller passes mapped text that no other CPU executes, and `writable` returned an alias of it.
    unsafe {
        machine::store(alias, bytes);
        machine::after_store(address as usize, bytes.len());
    }
}
