//! A mutex with a lock of the kernel.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::system::Lock;

/// A value, and the kernel's lock that protects it.
pub struct Mutex<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives one thread at a time access to the value.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: the lock owns the value. The kernel keeps no reference to a lock that no thread holds, so it can be moved.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// Returns a mutex around a value.
    pub const fn new(value: T) -> Self {
        Self { lock: Lock::new(), value: UnsafeCell::new(value) }
    }

    /// Sleeps until no other thread holds the lock, then takes it. The calling thread must not hold it.
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

/// Access to the value. Dropping it, on the thread that took the lock, releases the lock.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Not `Send`, because the kernel's locks have an owner.
    here: PhantomData<*const ()>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock while the guard exists.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock while the guard exists.
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

/// A waiting thread sleeps, so `relax` is not called.
#[cfg_attr(sdt_route = "native", allow(dead_code, reason = "the kernel patches there"))]
pub(crate) fn lock<T>(mutex: &Mutex<T>, _: impl Fn()) -> MutexGuard<'_, T> {
    mutex.lock()
}
