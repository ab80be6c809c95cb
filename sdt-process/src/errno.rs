//! The `errno` of a thread, which a hit leaves as it was.

/// The address of this thread's `errno`.
pub(crate) struct Errno(*mut libc::c_int);

impl Errno {
    pub(crate) fn here() -> Self {
        // SAFETY: returns the address of a thread-local variable.
        Self(unsafe { libc::__errno_location() })
    }

    pub(crate) fn get(&self) -> libc::c_int {
        // SAFETY: `here` got the address in this thread, since `Errno` is not `Send`.
        unsafe { *self.0 }
    }

    pub(crate) fn set(&self, errno: libc::c_int) {
        // SAFETY: `here` got the address in this thread, since `Errno` is not `Send`.
        unsafe { *self.0 = errno };
    }
}
