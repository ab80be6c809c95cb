//! Counts since boot that the host can ask for.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::standin;

static BREAKPOINTS: AtomicU64 = AtomicU64::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);

/// Counts a breakpoint that was claimed. Probe context.
pub(crate) fn breakpoint() {
    BREAKPOINTS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a timer interrupt, in which a probe may fire.
pub(crate) fn tick() {
    TICKS.fetch_add(1, Ordering::Relaxed);
    standin::on_tick();
}

/// Breakpoints claimed so far.
pub(crate) fn breakpoints() -> u64 {
    BREAKPOINTS.load(Ordering::Relaxed)
}

/// Timer interrupts so far, all CPUs.
pub(crate) fn ticks() -> u64 {
    TICKS.load(Ordering::Relaxed)
}
