//! `sx(9)`: locks that a thread may hold while it sleeps (`sys/sys/sx.h`, `sys/kern/kern_sx.c`).

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicU64, Ordering};

use static_assertions::const_assert_eq;

use crate::arch::cpu;
use crate::smp;

/// `struct sx`: a `struct lock_object` and the word of the owner. 32 bytes.
#[repr(C)]
pub(crate) struct Sx {
    /// `lo_name`.
    name: *const c_char,
    /// `lo_flags` and `lo_data`.
    flags: u64,
    /// `lo_witness`.
    witness: usize,
    /// `sx_lock`: here the number of the owner's CPU plus 1; 0 if the lock is free.
    owner: AtomicU64,
}

const_assert_eq!(size_of::<Sx>(), 32);

crate::exports::exports! {
    // sys/sys/sx.h
    sx_init_flags: unsafe extern "C" fn(*mut Sx, *const c_char, c_int),
    _sx_xlock: unsafe extern "C" fn(*const Sx, c_int, *const c_char, c_int) -> c_int,
    _sx_xunlock: unsafe extern "C" fn(*const Sx, *const c_char, c_int),
}

/// `LO_INITIALIZED`.
const INITIALIZED: u64 = 0x1_0000;

/// Initialises a lock.
///
/// # Safety
/// `sx` points to memory for a lock, and `name` lives as long as the lock.
unsafe extern "C" fn sx_init_flags(sx: *mut Sx, name: *const c_char, _options: c_int) {
    // SAFETY: `sx` points to memory for a lock.
    unsafe {
        assert_eq!((*sx).flags & INITIALIZED, 0, "sx_init_flags: it is initialised already");
        sx.write(Sx { name, flags: INITIALIZED, witness: 0, owner: AtomicU64::new(0) });
    }
}

/// Acquires a lock exclusively.
///
/// # Safety
/// `sx` points to a lock that `sx_init_flags` has initialised.
unsafe extern "C" fn _sx_xlock(sx: *const Sx, _: c_int, _: *const c_char, _: c_int) -> c_int {
    // SAFETY: `sx` points to a lock.
    let sx = unsafe { &*sx };
    assert_eq!(sx.flags, INITIALIZED, "_sx_xlock: it is not initialised");
    let own = cpu::current() as u64 + 1;
    let take = || sx.owner.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
    while let Err(owner) = take() {
        assert_ne!(owner, own, "_sx_xlock: recursed on a non-recursive sx");
        smp::join_rendezvous();
        core::hint::spin_loop();
    }
    0
}

/// Releases a lock that this CPU owns.
///
/// # Safety
/// `sx` points to a lock that `sx_init_flags` has initialised.
unsafe extern "C" fn _sx_xunlock(sx: *const Sx, _: *const c_char, _: c_int) {
    let own = cpu::current() as u64 + 1;
    // SAFETY: `sx` points to a lock.
    let owner = unsafe { &(*sx).owner }.swap(0, Ordering::Release);
    assert_eq!(owner, own, "_sx_xunlock: not owner");
}
