//! What is counted: of every hit, what became of it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

use super::sync::{AtomicCount, Count, widen};
use super::word::Word;

/// Nanoseconds (`dtrace_chill_interval`, dtrace.c) ...
const INTERVAL: u64 = 1_000_000_000;
/// ... and for how many of them programs may hold a CPU (`dtrace_chill_max`).
const LONGEST_HELD: u32 = 500_000_000;

/// What one CPU counts. On a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct PerCpu {
    in_probe: AtomicBool,
    hits: AtomicCount,
    unclaimed: AtomicCount,
    records: AtomicCount,
    drops: AtomicCount,
    unknown: AtomicCount,
    reentered: AtomicCount,
    /// Since when it is counted for how long programs have held the CPU (`cpu_dtrace_chillmark`), ...
    held_since: Word,
    /// ... and for how long they have, in nanoseconds (`cpu_dtrace_chilled`).
    held: AtomicU32,
}

/// What became of a hit.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) records: u32,
    pub(crate) drops: u32,
}

/// The CPU is in probe context until this is dropped, also by a panic of a function of the host's.
pub(crate) struct InProbe<'c> {
    cpu: &'c PerCpu,
    before: bool,
}

impl Drop for InProbe<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.cpu.in_probe.store(self.before, Ordering::Relaxed);
    }
}

/// Hits of a CPU after which it looks at the clock, even if nobody else does.
const CHECK: Count = 256;

impl PerCpu {
    pub(crate) fn new() -> Self {
        let zero = || AtomicCount::new(0);
        Self {
            in_probe: AtomicBool::new(false),
            hits: zero(),
            unclaimed: zero(),
            records: zero(),
            drops: zero(),
            unknown: zero(),
            reentered: zero(),
            held_since: Word::new(),
            held: AtomicU32::new(0),
        }
    }

    /// Notes that this CPU is recording, until the result is dropped; `None`, and counted, when it was already. Probe
    /// context, on this CPU.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<InProbe<'_>> {
        if self.is_in_probe() {
            // Re-entry can interrupt re-entry, so this has to be one step.
            self.reentered.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.mark(false))
    }

    /// Notes that functions of others run in probe context on this CPU, until the result is dropped.
    #[inline(always)]
    pub(crate) fn occupy(&self) -> InProbe<'_> {
        self.mark(self.is_in_probe())
    }

    #[inline(always)]
    fn mark(&self, before: bool) -> InProbe<'_> {
        self.in_probe.store(true, Ordering::Relaxed);
        // Whatever interrupts this CPU from here on has to see the flag. It is the same CPU, so
        // keeping the compiler from moving the store is enough.
        compiler_fence(Ordering::SeqCst);
        InProbe { cpu: self, before }
    }

    /// Whether this CPU is recording: exact on the CPU itself, a guess elsewhere.
    #[inline(always)]
    pub(crate) fn is_in_probe(&self) -> bool {
        self.in_probe.load(Ordering::Relaxed)
    }

    /// Whether programs may hold this CPU for so many nanoseconds from now on (`chill`); then that is counted. While it is [in probe
    /// context](Self::enter).
    pub(crate) fn may_hold(&self, now: u64, nanoseconds: u64) -> bool {
        if now.saturating_sub(self.held_since.get()) > INTERVAL {
            self.held_since.set(now);
            self.held.store(0, Ordering::Relaxed);
        }
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(u32::MAX);
        let held = self.held.load(Ordering::Relaxed).saturating_add(nanoseconds);
        let may = held <= LONGEST_HELD;
        if may {
            self.held.store(held, Ordering::Relaxed);
        }
        may
    }

    /// While it is [in probe context](Self::enter): whether it is time to see if consumers are still there. That is so every now and then.
    pub(crate) fn is_time_to_check(&self) -> bool {
        self.hits.load(Ordering::Relaxed).is_multiple_of(CHECK)
    }

    /// While it is in probe context: a number that the next hits of this CPU do not have.
    pub(crate) fn hit(&self) -> u32 {
        (self.hits.load(Ordering::Relaxed) as u32).wrapping_add(1)
    }

    /// While it is [in probe context](Self::enter): a probe was hit, and this became of it; `None`: it was an id that is no probe.
    pub(crate) fn count(&self, tally: Option<Tally>) {
        let Some(Tally { records, drops }) = tally else {
            return bump(&self.unknown, 1);
        };
        bump(&self.hits, 1);
        if records == 0 && drops == 0 {
            return bump(&self.unclaimed, 1);
        }
        bump(&self.records, records);
        bump(&self.drops, drops);
    }
}

/// Adds to a count that has one writer.
#[allow(clippy::unnecessary_cast, reason = "not where a count is a word of 32 bits")]
pub(crate) fn bump(count: &AtomicCount, by: u32) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(by as Count), Ordering::Relaxed);
}

/// What happened since the framework came to be, on all CPUs.
///
/// Every call of `probe`, `probe5` or `hit` is counted in exactly one of `hits`, `reentered`, `unknown` and `stray`. A hit that
/// `n` enablings record makes `n` records or drops. So if no probe is enabled more than once,
/// `hits = records + drops + unclaimed`, to the last one.
///
/// On targets without 64-bit atomics each CPU's counts wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// A probe fired, enabled for anyone or not.
    pub hits: u64,
    /// Hits that nobody recorded: no consumer that has the probe enabled was going, or their programs' predicates were
    /// false. That happens after the last enabling of a probe has gone and before its sites are restored, too, and to
    /// hits that are on their way then.
    pub unclaimed: u64,
    /// Records that were written.
    pub records: u64,
    /// Records that were not, as a buffer was full.
    pub drops: u64,
    /// Calls while the same CPU was in a call already. Nothing was recorded.
    pub reentered: u64,
    /// Calls with an id that is no probe, or not any more. Nothing was recorded.
    pub unknown: u64,
    /// Calls on a CPU that there is no room for, or before there is any memory. Nothing was recorded.
    pub stray: u64,
    /// Probes that were created and not enabled for an enabling that means them, as no ECB was left.
    pub missed: u64,
}

impl Counters {
    /// What these CPUs have counted.
    pub(crate) fn of(cpus: &[PerCpu]) -> Self {
        let sum = |count: fn(&PerCpu) -> &AtomicCount| {
            cpus.iter()
                .map(|cpu| widen(count(cpu).load(Ordering::Relaxed)))
                .fold(0, u64::wrapping_add)
        };
        Self {
            hits: sum(|cpu| &cpu.hits),
            unclaimed: sum(|cpu| &cpu.unclaimed),
            records: sum(|cpu| &cpu.records),
            drops: sum(|cpu| &cpu.drops),
            reentered: sum(|cpu| &cpu.reentered),
            unknown: sum(|cpu| &cpu.unknown),
            ..Self::default()
        }
    }
}
