//! `sx(9)`: a lock that a thread may hold while it sleeps, unlike a `mtx(9)`.
//!
//! `sys/sys/sx.h`, `sys/sys/_sx.h`, `sys/sys/_lock.h`, 10 to main; LP64.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};

use spin::Once;
use static_assertions::const_assert_eq;

/// `struct sx`: 32 bytes, opaque.
#[repr(C)]
struct Sx([usize; 4]);

const_assert_eq!(size_of::<Sx>(), 32);

unsafe extern "C" {
    fn sx_init_flags(sx: *mut Sx, description: *const c_char, options: c_int);
    fn _sx_xlock(sx: *mut Sx, options: c_int, file: *const c_char, line: c_int) -> c_int;
    fn _sx_xunlock(sx: *mut Sx, file: *const c_char, line: c_int);
}

/// `SX_NOPROFILE | SX_NOWITNESS | SX_QUIET`: the kernel keeps no reference to a lock with these flags, so it need not
/// be destroyed before its module is unloaded.
const FORGOTTEN: c_int = 0x02 | 0x04 | 0x08;

/// An `sx` lock, taken exclusively.
pub(crate) struct Lock {
    sx: UnsafeCell<Sx>,
    /// An `sx` cannot be initialised at compile time, because its class is a number that only the kernel knows.
    made: Once<()>,
}

// SAFETY: only the kernel accesses it, and its functions may be called by any thread.
unsafe impl Sync for Lock {}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self { sx: UnsafeCell::new(Sx([0; 4])), made: Once::new() }
    }

    pub(crate) fn lock(&self) {
        let sx = self.sx.get();
        // SAFETY: the lock belongs to this value, and this runs once, before any other use. Does not sleep.
        self.made.call_once(|| unsafe { sx_init_flags(sx, c"sdt".as_ptr(), FORGOTTEN) });
        // SAFETY: the lock was initialised above. Kernels without lock debugging pass NULL and 0 as file and line.
        unsafe { _sx_xlock(sx, 0, core::ptr::null(), 0) };
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// This thread holds the lock.
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: this thread holds the lock, by the contract of this function.
        unsafe { _sx_xunlock(self.sx.get(), core::ptr::null(), 0) };
    }
}
