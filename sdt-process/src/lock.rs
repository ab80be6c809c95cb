//! Locks of ours that a thread knows to be its own: should it fork meanwhile, in a function of the program's that is called
//! with them held or in a signal handler, it must not wait for itself.
//!
//! A lock is counted from before it is taken until after it is let go of, so that a signal handler finds none that is not.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use sdt_framework::{RawMutex, SpinLock};

use crate::cpus::Slots;

thread_local! {
    /// How many this thread has, or is about to have. Neither allocated nor dropped, so signal handlers can use it.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread has one, or is about to.
pub(crate) fn is_mine() -> bool {
    MINE.get() != 0
}

/// How many threads have one of ours already, and wait for the framework's: whoever has that may wait for somebody who forks.
static STUCK: AtomicUsize = AtomicUsize::new(0);

/// Whether there are any at the moment.
pub(crate) fn is_any_stuck() -> bool {
    STUCK.load(Ordering::Acquire) != 0
}

/// The only thread there is is not.
pub(crate) fn nobody_is_stuck() {
    STUCK.store(0, Ordering::Release);
}

/// One more of this thread's, until it is dropped. Made before the lock is taken.
#[derive(Debug)]
pub(crate) struct Mine(());

impl Mine {
    pub(crate) fn new() -> Self {
        MINE.set(MINE.get() + 1);
        // Only signal handlers of this thread look.
        compiler_fence(Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
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
        let has_another = is_mine();
        std::mem::forget(Mine::new());
        if RawMutex::try_lock(&self.0) {
            return;
        }
        if has_another {
            STUCK.fetch_add(1, Ordering::AcqRel);
        }
        RawMutex::lock(&self.0);
        if has_another {
            STUCK.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn try_lock(&self) -> bool {
        let mine = Mine::new();
        let is_locked = RawMutex::try_lock(&self.0);
        if is_locked {
            std::mem::forget(mine);
        }
        is_locked
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's contract.
        unsafe { RawMutex::unlock(&self.0) };
        drop(Mine(()));
    }
}
