//! How long programs may hold a CPU.

use crate::dif::Word;

/// Nanoseconds (`dtrace_chill_interval`, dtrace.c) ...
const INTERVAL: u64 = 1_000_000_000;
/// ... and for how many of them a CPU may be held (`dtrace_chill_max`).
const MOST: u64 = 500_000_000;

/// How long a CPU has been held, by programs of all consumers (`cpu_dtrace_chilled`). It is that CPU's alone.
#[derive(Debug)]
pub(crate) struct Chill {
    /// When it began to be counted (`cpu_dtrace_chillmark`).
    mark: Word,
    spent: Word,
}

impl Chill {
    pub(crate) const fn new() -> Self {
        Self { mark: Word::new(), spent: Word::new() }
    }

    /// Whether it may be held for so many nanoseconds from now on; then that is counted. Probe context, on this CPU.
    pub(crate) fn may(&self, now: u64, nanoseconds: u64) -> bool {
        if now.saturating_sub(self.mark.get()) > INTERVAL {
            self.mark.set(now);
            self.spent.set(0);
        }
        let spent = self.spent.get().saturating_add(nanoseconds);
        let may = spent <= MOST;
        if may {
            self.spent.set(spent);
        }
        may
    }
}
