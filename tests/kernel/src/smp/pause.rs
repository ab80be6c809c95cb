//! CPUs that wait while another one changes what all of them execute.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{BUSY, PENDING, WORK, Work, join_rendezvous, online};
use crate::arch::{self, cpu};

/// CPUs that have been paused, and whether they are to go on.
static PAUSED: AtomicUsize = AtomicUsize::new(0);
static RESUMED: AtomicBool = AtomicBool::new(true);

/// The loop of a paused CPU.
static WAIT: Work<'static> = &|_| {
    PAUSED.fetch_add(1, Ordering::AcqRel);
    while !RESUMED.load(Ordering::Acquire) {
        core::hint::spin_loop();
    }
};

/// Makes all other CPUs wait, interrupts off, until [`resume_others`]. No rendezvous is possible meanwhile.
pub(crate) fn pause_others() {
    while BUSY.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        join_rendezvous();
        core::hint::spin_loop();
    }
    PAUSED.store(0, Ordering::Relaxed);
    RESUMED.store(false, Ordering::Relaxed);
    WORK.store((&raw const WAIT).cast_mut().cast(), Ordering::Relaxed);
    let own = cpu::current();
    for other in PENDING.iter().take(online()).enumerate().filter(|&(cpu, _)| cpu != own) {
        other.1.store(true, Ordering::Release);
    }
    if online() > 1 {
        arch::send_rendezvous();
    }
    while PAUSED.load(Ordering::Acquire) < online() - 1 {
        core::hint::spin_loop();
    }
}

/// Lets the paused CPUs continue.
pub(crate) fn resume_others() {
    RESUMED.store(true, Ordering::Release);
    while PENDING.iter().take(online()).any(|pending| pending.load(Ordering::Acquire)) {
        core::hint::spin_loop();
    }
    BUSY.store(false, Ordering::Release);
}
