//! How long programs may hold a CPU (`chill`).

use core::sync::atomic::{AtomicU32, Ordering};

use super::word::Word;

/// Nanoseconds (`dtrace_chill_interval`, dtrace.c) ...
const INTERVAL: u64 = 1_000_000_000;
/// ... and for how many of them a CPU may be held (`dtrace_chill_max`).
const MOST: u32 = 500_000_000;

/// For how long programs of all consumers have held a CPU.
#[derive(Debug)]
pub(crate) struct Chill {
    /// When the interval began (`cpu_dtrace_chillmark`).
    mark: Word,
    /// Nanoseconds since then (`cpu_dtrace_chilled`).
    held: AtomicU32,
}

impl Chill {
    pub(super) const fn new() -> Self {
        Self { mark: Word::new(), held: AtomicU32::new(0) }
    }

    /// Whether programs may hold this CPU for so many nanoseconds from now on; then that is counted. Probe context, on this CPU.
    pub(crate) fn may_hold(&self, now: u64, nanoseconds: u64) -> bool {
        if now.saturating_sub(self.mark.get()) > INTERVAL {
            self.mark.set(now);
            self.held.store(0, Ordering::Relaxed);
        }
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(u32::MAX);
        let held = self.held.load(Ordering::Relaxed).saturating_add(nanoseconds);
        let may = held <= MOST;
        if may {
            self.held.store(held, Ordering::Relaxed);
        }
        may
    }
}
