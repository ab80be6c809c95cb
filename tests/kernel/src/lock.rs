//! A spin lock for data that interrupt handlers use, too.

use core::ops::{Deref, DerefMut};

use spin::{Mutex, MutexGuard};

use crate::arch::cpu;

/// A spin lock that keeps interrupts off while it is held.
#[derive(Debug)]
pub(crate) struct IrqMutex<T>(Mutex<T>);

/// The guard of a locked [`IrqMutex`].
pub(crate) struct IrqGuard<'a, T> {
    /// `None` only in `drop`, which releases the lock before it restores interrupts.
    guard: Option<MutexGuard<'a, T>>,
    enabled: bool,
}

impl<T> IrqMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> IrqGuard<'_, T> {
        let enabled = cpu::interrupts_off();
        IrqGuard { guard: Some(self.0.lock()), enabled }
    }
}

impl<T> Deref for IrqGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("held until dropped")
    }
}

impl<T> DerefMut for IrqGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("held until dropped")
    }
}

impl<T> Drop for IrqGuard<'_, T> {
    fn drop(&mut self) {
        self.guard = None;
        cpu::restore_interrupts(self.enabled);
    }
}
