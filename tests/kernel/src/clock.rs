//! The time of day: what the machine's clock said at boot, and what has passed since.

use spin::Once;

use crate::arch::{rtc, timer};

/// When the kernel began to count, in nanoseconds since 1970.
static BOOT: Once<u64> = Once::new();

/// Reads the machine's clock. Once, before other CPUs do anything.
pub(crate) fn start() {
    BOOT.call_once(|| rtc::now_ns().saturating_sub(timer::now_ns()));
}

/// Nanoseconds since 1970; `None` before [`start`]. Probe context.
pub(crate) fn now_ns() -> Option<u64> {
    Some(BOOT.get()?.saturating_add(timer::now_ns()))
}
