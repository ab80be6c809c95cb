//! How long programs may hold a CPU (`chill`).

use core::sync::atomic::Ordering;

use crate::counters::PerCpu;

/// Nanoseconds (`dtrace_chill_interval`, dtrace.c) ...
const INTERVAL: u64 = 1_000_000_000;
/// ... and for how many of them a CPU may be held (`dtrace_chill_max`).
const MOST: u32 = 500_000_000;

impl PerCpu {
    /// Whether programs, of all consumers together, may hold this CPU for so many nanoseconds from now on; then that is counted.
    /// Probe context, on this CPU.
    pub(crate) fn may_chill(&self, now: u64, nanoseconds: u64) -> bool {
        if now.saturating_sub(self.chill_mark.get()) > INTERVAL {
            self.chill_mark.set(now);
            self.chilled.store(0, Ordering::Relaxed);
        }
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(u32::MAX);
        let chilled = self.chilled.load(Ordering::Relaxed).saturating_add(nanoseconds);
        let may = chilled <= MOST;
        if may {
            self.chilled.store(chilled, Ordering::Relaxed);
        }
        may
    }
}
