//! A mutex of the kernel's.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::system::Lock;

/// A value, and the lock of the kernel's that is to be held by who looks at it.
pub struct Mutex<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: the lock owns the value. The kernel keeps no reference to a lock that no thread holds, so it can be moved.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Self {
        Self { lock: Lock::new(), value: UnsafeCell::new(value) }
    }

    /// Sleeps until no other thread has the value. The calling thread must not have it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.lock.lock();
        MutexGuard { mutex: self, here: PhantomData }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// The value, until it is dropped. The thread that took the lock gives it back.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// The kernel's locks have an owner, so it stays with its thread.
    here: PhantomData<*const ()>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `lock` took it, on this thread.
        unsafe { self.mutex.lock.unlock() };
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

/// Who waits sleeps, so there is nothing else to do meanwhile.
#[cfg_attr(sdt_route = "native", allow(dead_code, reason = "the kernel patches there"))]
pub(crate) fn lock<T>(mutex: &Mutex<T>, _: impl Fn()) -> MutexGuard<'_, T> {
    mutex.lock()
}
