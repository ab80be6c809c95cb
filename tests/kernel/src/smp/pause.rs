//! Pauses all other CPUs while one CPU changes code that they execute.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Work, begin, end, online};

/// The number of paused CPUs.
static PAUSED: AtomicUsize = AtomicUsize::new(0);
/// Whether the paused CPUs may continue.
static RESUMED: AtomicBool = AtomicBool::new(true);

/// The loop of a paused CPU.
static WAIT: Work<'static> = &|_| {
    PAUSED.fetch_add(1, Ordering::AcqRel);
    while !RESUMED.load(Ordering::Acquire) {
        core::hint::spin_loop();
    }
};

/// Makes all other CPUs wait, with interrupts off, until [`resume_others`]. No rendezvous is possible meanwhile. Only one CPU may
/// call this function at a time.
pub(crate) fn pause_others() {
    PAUSED.store(0, Ordering::Relaxed);
    RESUMED.store(false, Ordering::Relaxed);
    begin(&WAIT);
    while PAUSED.load(Ordering::Acquire) < online() - 1 {
        core::hint::spin_loop();
    }
}

/// Lets the paused CPUs continue.
pub(crate) fn resume_others() {
    RESUMED.store(true, Ordering::Release);
    end();
}
