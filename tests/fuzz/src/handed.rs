//! Memory that a framework is given for as long as it is there.

use std::mem::MaybeUninit;

/// So many bytes. They go when all is over.
pub(crate) struct Handed(*mut [MaybeUninit<u8>]);

impl Handed {
    /// Some memory.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Box::into_raw(vec![MaybeUninit::uninit(); bytes].into_boxed_slice()))
    }

    /// The bytes.
    ///
    /// # Safety
    /// This is called once, and who gets them goes before this does.
    pub(crate) unsafe fn over(&self) -> &'static mut [MaybeUninit<u8>] {
        // SAFETY: they are a box's, and nobody else has them, by the contract above.
        unsafe { &mut *self.0 }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        // SAFETY: they were a box's, and who had them is no more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
