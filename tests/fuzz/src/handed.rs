//! Memory for a framework, which is freed after the framework.

use std::mem::MaybeUninit;

/// Memory of this size, which is freed at the end.
pub(crate) struct Handed(*mut [MaybeUninit<u8>]);

impl Handed {
    /// Allocates memory of a size.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Box::into_raw(Box::new_uninit_slice(bytes)))
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// The caller calls it once, and drops the framework before `self`.
    pub(crate) unsafe fn over(&self) -> &'static mut [MaybeUninit<u8>] {
        // SAFETY: `self.0` comes from a box that `self` owns; the single call makes the reference unique.
        unsafe { &mut *self.0 }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        // SAFETY: `new` made the pointer from a box, and the caller of `over` has dropped the framework.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
