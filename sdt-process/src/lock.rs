//! Locks of ours that a thread knows to be its own: should it fork meanwhile, in a function of the program's that is called
//! with them held or in a signal handler, it must not wait for itself.

use std::cell::Cell;

use sdt_framework::{RawMutex, SpinLock};

use crate::cpus::Slots;

thread_local! {
    /// How many this thread has. Neither allocated nor dropped, so signal handlers can use it.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread has one.
pub(crate) fn is_mine() -> bool {
    MINE.get() != 0
}

/// One more of this thread's, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mine(());

impl Mine {
    pub(crate) fn new() -> Self {
        MINE.set(MINE.get() + 1);
        Self(())
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        MINE.set(MINE.get() - 1);
    }
}

/// The framework's locks.
#[derive(Debug)]
pub struct Lock(SpinLock<Slots>);

// SAFETY: it is the other one.
unsafe impl RawMutex for Lock {
    const INIT: Self = Self(RawMutex::INIT);

    type GuardMarker = <SpinLock<Slots> as RawMutex>::GuardMarker;

    fn lock(&self) {
        RawMutex::lock(&self.0);
        MINE.set(MINE.get() + 1);
    }

    fn try_lock(&self) -> bool {
        let is_locked = RawMutex::try_lock(&self.0);
        MINE.set(MINE.get() + usize::from(is_locked));
        is_locked
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawMutex::unlock(&self.0) };
        MINE.set(MINE.get() - 1);
    }
}
