//! The time of day, which the host sets.

use spin::Once;

use crate::arch::timer;

/// The time of day at boot, in nanoseconds since 1970.
static BOOT: Once<u64> = Once::new();

/// Sets the time of day, in nanoseconds since 1970, unless it is set already.
pub(crate) fn set(now: u64) {
    BOOT.call_once(|| now.saturating_sub(timer::now_ns()));
}

/// Returns the time of day in nanoseconds since 1970; `None` before [`set`]. Probe context.
pub(crate) fn now_ns() -> Option<u64> {
    Some(BOOT.get()?.saturating_add(timer::now_ns()))
}
