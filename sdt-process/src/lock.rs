//! Counts the locks of this crate that a thread holds.
//!
//! A signal handler, or a function of the program that runs with a lock held, may fork. `fork` must not wait for a lock that its
//! own thread holds, so its handler checks [`is_held_here`] first.
//!
//! A lock is counted before it is taken and until after it is released, so a signal handler never sees a lock that is held and not
//! counted.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use sdt_framework::{Host, RawMutex, SpinLock};

thread_local! {
    /// The locks that this thread holds or is about to take. Neither allocated nor dropped, so signal handlers can use it.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The threads that hold one lock of this crate and wait for the framework's. The holder of the framework's lock may be waiting
/// for a thread that forks.
static BLOCKED: AtomicUsize = AtomicUsize::new(0);

/// Returns whether this thread holds a lock of this crate, or is about to take one.
pub(crate) fn is_held_here() -> bool {
    HELD.get() != 0
}

/// Returns whether a thread holds one lock of this crate and waits for the framework's.
pub(crate) fn is_any_thread_blocked() -> bool {
    BLOCKED.load(Ordering::Acquire) != 0
}

/// Forgets blocked threads, in the child of a `fork`: they exist in the parent only.
pub(crate) fn forget_blocked_threads() {
    BLOCKED.store(0, Ordering::Release);
}

/// Counts a lock as held by this thread until this value is dropped. Create it before the thread takes the lock.
#[derive(Debug)]
pub(crate) struct Counted(());

impl Counted {
    pub(crate) fn new() -> Self {
        HELD.set(HELD.get() + 1);
        // Only signal handlers of this thread read the count.
        compiler_fence(Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        HELD.set(HELD.get() - 1);
    }
}

/// The framework's lock: a spin lock that is counted.
#[derive(Debug)]
pub struct Lock<H: Host>(SpinLock<H>);

// SAFETY: every function forwards to the inner `SpinLock`, which guarantees mutual exclusion.
unsafe impl<H: Host> RawMutex for Lock<H> {
    const INIT: Self = Self(RawMutex::INIT);

    type GuardMarker = <SpinLock<H> as RawMutex>::GuardMarker;

    fn lock(&self) {
        let holds_another = is_held_here();
        std::mem::forget(Counted::new());
        if RawMutex::try_lock(&self.0) {
            return;
        }
        if holds_another {
            BLOCKED.fetch_add(1, Ordering::AcqRel);
        }
        RawMutex::lock(&self.0);
        if holds_another {
            BLOCKED.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn try_lock(&self) -> bool {
        let counted = Counted::new();
        let is_locked = RawMutex::try_lock(&self.0);
        if is_locked {
            std::mem::forget(counted);
        }
        is_locked
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock, as `RawMutex::unlock` requires.
        unsafe { RawMutex::unlock(&self.0) };
        // Ends the count that `lock` or `try_lock` began.
        drop(Counted(()));
    }
}
