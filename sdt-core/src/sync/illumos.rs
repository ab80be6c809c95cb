//! `mutex(9F)`: an adaptive mutex, which a thread may hold while it sleeps.
//!
//! `usr/src/uts/common/sys/mutex.h`, 2025.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};

use spin::Once;

/// `kmutex_t`: 8 bytes, opaque.
#[repr(C)]
struct KMutex(usize);

unsafe extern "C" {
    fn mutex_init(mutex: *mut KMutex, name: *const c_char, kind: c_int, arg: *mut c_void);
    fn mutex_enter(mutex: *mut KMutex);
    fn mutex_exit(mutex: *mut KMutex);
}

/// `MUTEX_DEFAULT`: adaptive. The kernel keeps no reference to such a mutex, so it need not be destroyed before its
/// module is unloaded.
const MUTEX_DEFAULT: c_int = 6;

/// An adaptive mutex.
pub(crate) struct Lock {
    mutex: UnsafeCell<KMutex>,
    made: Once<()>,
}

// SAFETY: only the kernel accesses it, and its functions may be called by any thread.
unsafe impl Sync for Lock {}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self { mutex: UnsafeCell::new(KMutex(0)), made: Once::new() }
    }

    pub(crate) fn lock(&self) {
        let mutex = self.mutex.get();
        let (name, none) = (core::ptr::null(), core::ptr::null_mut());
        // SAFETY: the lock belongs to this value, and this runs once, before any other use. Does not sleep.
        self.made.call_once(|| unsafe { mutex_init(mutex, name, MUTEX_DEFAULT, none) });
        // SAFETY: the lock was initialised above.
        unsafe { mutex_enter(mutex) };
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// This thread holds the lock.
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: this thread holds the lock, by the contract of this function.
        unsafe { mutex_exit(self.mutex.get()) };
    }
}
