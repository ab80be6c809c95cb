//! Time: the generic timer's virtual counter, and its interrupt.

use core::sync::atomic::{AtomicU64, Ordering};

use aarch64_cpu::registers::{
    CNTFRQ_EL0, CNTV_CTL_EL0, CNTV_TVAL_EL0, CNTVCT_EL0, Readable, Writeable,
};

/// Timer interrupts a second, on each CPU.
const TICK_HZ: u64 = 250;

/// The counter at boot.
static START: AtomicU64 = AtomicU64::new(0);

/// Reads the counter that all CPUs share. The CPU may read it before earlier instructions complete, so a timestamp may
/// be some instructions early.
fn counter() -> u64 {
    CNTVCT_EL0.get()
}

/// Stores the counter at boot. The first CPU calls this function once.
pub(crate) fn init() {
    START.store(counter(), Ordering::Relaxed);
}

/// Starts this CPU's ticks.
pub(crate) fn start() {
    again();
    CNTV_CTL_EL0.write(CNTV_CTL_EL0::ENABLE::SET);
}

/// Programs the next timer interrupt; clears the pending one.
pub(crate) fn again() {
    CNTV_TVAL_EL0.set(CNTFRQ_EL0.get() / TICK_HZ);
}

/// Nanoseconds since boot. Probe context.
pub(crate) fn now_ns() -> u64 {
    let counts = counter().saturating_sub(START.load(Ordering::Relaxed));
    let frequency = CNTFRQ_EL0.get().max(1);
    (u128::from(counts) * 1_000_000_000 / u128::from(frequency)) as u64
}
