//! Counters of hits and their results.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

use super::sync::{AtomicCount, Count, widen};
use super::word::Word;

/// The interval in nanoseconds for which `chill` is limited (`dtrace_chill_interval`, dtrace.c).
const INTERVAL: u64 = 1_000_000_000;
/// The longest time in nanoseconds for which programs may hold a CPU in an interval (`dtrace_chill_max`).
const LONGEST_HELD: u32 = 500_000_000;

/// The counters of one CPU, on cache lines of their own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct PerCpu {
    in_probe: AtomicBool,
    /// Whether the CPU handles a breakpoint in a function.
    at_breakpoint: AtomicBool,
    hits: AtomicCount,
    unclaimed: AtomicCount,
    records: AtomicCount,
    drops: AtomicCount,
    unknown: AtomicCount,
    reentered: AtomicCount,
    pub(crate) work: Work,
    /// The start of the current interval (`cpu_dtrace_chillmark`).
    held_since: Word,
    /// The time in nanoseconds for which programs have held the CPU in it (`cpu_dtrace_chilled`).
    held: AtomicU32,
}

/// The largest number of units of work that a hit of this CPU used. Written in probe context.
#[derive(Debug)]
pub(crate) struct Work {
    most: AtomicU32,
    /// A hit with one consumer used no more than `most` if at least this number of units is left to its clauses.
    left: AtomicU32,
}

impl Work {
    pub(crate) const fn new() -> Self {
        Self { most: AtomicU32::new(0), left: AtomicU32::new(u32::MAX) }
    }

    /// Returns the largest number of units. Callable anywhere.
    pub(crate) fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }

    /// Returns whether a hit may have used more units than every earlier hit, if `left` units are left at its end. Always true
    /// after [`expect`](Self::expect).
    #[inline(always)]
    pub(crate) fn may_be_most(&self, left: u32) -> bool {
        left < self.left.load(Ordering::Relaxed)
    }

    /// Notes that the units left at the end of the current hit do not show how many units the hit used.
    /// [`may_be_most`](Self::may_be_most) then returns true.
    pub(crate) fn expect(&self) {
        self.left.store(u32::MAX, Ordering::Relaxed);
    }

    /// Notes that a hit used `used` units. `available` is the number of units that the clauses of a hit with one consumer can
    /// use.
    pub(crate) fn note(&self, used: u32, available: u32) {
        let most = self.most().max(used);
        self.most.store(most, Ordering::Relaxed);
        // At least 1, so that a hit that has used all units is always examined: `dtrace:::ERROR` has a reserve.
        self.left.store(available.saturating_sub(most).max(1), Ordering::Relaxed);
    }
}

/// How the result of a clause counts.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Counted {
    /// Its consumer has timed out.
    Nothing = 0,
    Record = 1,
    /// There was no room for its record, or a fault stopped it.
    Drop = 1 << 32,
    /// Its predicate was false. In a sum, this only changes the highest bit.
    False = 1 << 63,
}

/// The sum of the results of a hit's clauses: the number of records (the lower half), the number of drops (the next 31 bits), and
/// a bit without meaning.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally(u64);

impl Tally {
    /// Counts the result of a clause.
    #[inline(always)]
    pub(crate) fn add(&mut self, counted: Counted) {
        self.0 = self.0.wrapping_add(counted as u64);
    }
}

/// A guard: the CPU is in probe context until it is dropped, also by a panic in a function of the host.
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

/// A guard: the CPU handles a breakpoint in a function until it is dropped.
pub(crate) struct AtBreakpoint<'c>(&'c PerCpu);

impl Drop for AtBreakpoint<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.at_breakpoint.store(false, Ordering::Relaxed);
    }
}

/// The number of hits of a CPU after which the framework checks whether consumers have timed out.
const CHECK: Count = 256;

impl PerCpu {
    pub(crate) fn new() -> Self {
        let zero = || AtomicCount::new(0);
        Self {
            in_probe: AtomicBool::new(false),
            at_breakpoint: AtomicBool::new(false),
            hits: zero(),
            unclaimed: zero(),
            records: zero(),
            drops: zero(),
            unknown: zero(),
            reentered: zero(),
            work: Work::new(),
            held_since: Word::new(),
            held: AtomicU32::new(0),
        }
    }

    /// Enters probe context on this CPU, until the guard is dropped. Returns `None` if the CPU is in probe context already, and
    /// counts the hit as re-entered.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<InProbe<'_>> {
        if self.is_in_probe() {
            // Re-entry can interrupt re-entry, so the increment is atomic.
            self.reentered.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.mark(false))
    }

    /// Begins to handle a breakpoint in a function, until the guard is dropped. Returns `None` if the CPU is handling one
    /// already, and counts the hit as re-entered.
    #[inline(always)]
    pub(crate) fn begin_breakpoint(&self) -> Option<AtBreakpoint<'_>> {
        if self.at_breakpoint.load(Ordering::Relaxed) {
            self.reentered.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.at_breakpoint.store(true, Ordering::Relaxed);
        // A breakpoint on this CPU must see the flag from here on. On the same CPU a compiler fence is enough.
        compiler_fence(Ordering::SeqCst);
        Some(AtBreakpoint(self))
    }

    /// Marks this CPU as in probe context for a call of the host's functions, until the guard is dropped.
    #[inline(always)]
    pub(crate) fn occupy(&self) -> InProbe<'_> {
        self.mark(self.is_in_probe())
    }

    #[inline(always)]
    fn mark(&self, before: bool) -> InProbe<'_> {
        self.in_probe.store(true, Ordering::Relaxed);
        // An interrupt of this CPU must see the flag from here on. On the same CPU a compiler fence is enough.
        compiler_fence(Ordering::SeqCst);
        InProbe { cpu: self, before }
    }

    /// Returns whether this CPU has recorded or counted a hit.
    pub(crate) fn has_hits(&self) -> bool {
        self.hits.load(Ordering::Relaxed) != 0
    }

    /// Returns whether this CPU is in probe context: exact on this CPU, a guess on others.
    #[inline(always)]
    pub(crate) fn is_in_probe(&self) -> bool {
        self.in_probe.load(Ordering::Relaxed)
    }

    /// Returns whether programs may hold this CPU for this time from now on (`chill`), and adds it to the time of the
    /// interval. Called [in probe context](Self::enter).
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

    /// Returns whether the framework checks for timed-out consumers at this hit. Called [in probe context](Self::enter).
    pub(crate) fn is_time_to_check(&self) -> bool {
        self.hits.load(Ordering::Relaxed).is_multiple_of(CHECK)
    }

    /// Returns a number that the next hits of this CPU do not have. Called [in probe context](Self::enter).
    pub(crate) fn hit(&self) -> u32 {
        (self.hits.load(Ordering::Relaxed) as u32).wrapping_add(1)
    }

    /// Counts a hit with its result; `None` for an id that no probe has. Called [in probe context](Self::enter).
    pub(crate) fn count(&self, tally: Option<Tally>) {
        let Some(Tally(tally)) = tally else {
            return bump(&self.unknown, 1);
        };
        let tally = tally & !(Counted::False as u64);
        bump(&self.hits, 1);
        if tally == 0 {
            return bump(&self.unclaimed, 1);
        }
        bump(&self.records, tally as u32);
        bump(&self.drops, (tally >> 32) as u32);
    }
}

/// Adds to a counter that has one writer.
#[allow(clippy::unnecessary_cast, reason = "not where a count is a word of 32 bits")]
pub(crate) fn bump(count: &AtomicCount, by: u32) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(by as Count), Ordering::Relaxed);
}

/// The counts of all CPUs since the framework was created.
///
/// Every call of `probe`, `probe5` or `hit` is counted in exactly one of `hits`, `reentered`, `unknown` and `stray`. A
/// hit that `n` enablings record makes `n` records or drops. So if no probe is enabled more than once, `hits = records
/// + drops + unclaimed`, exactly.
///
/// On targets without 64-bit atomics each CPU's counts wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Hits of probes, enabled or not.
    pub hits: u64,
    /// Hits that no consumer recorded: no consumer that has enabled the probe was started, or all predicates were false.
    /// This includes hits between the removal of the last enabling of a probe and the restoration of its sites.
    pub unclaimed: u64,
    /// Records that were written.
    pub records: u64,
    /// Records that were dropped, because a buffer was full, and clauses that a fault stopped.
    pub drops: u64,
    /// Hits while the same CPU was recording another hit. Nothing was recorded.
    pub reentered: u64,
    /// Hits with an id that no probe has. Nothing was recorded.
    pub unknown: u64,
    /// Hits on a CPU with a number that is too large, before [`init`](crate::Dtrace::init), or that the host could not record
    /// ([`count_stray`](crate::Dtrace::count_stray)). Nothing was recorded.
    pub stray: u64,
    /// Probes that were created and could not be enabled for a retained enabling, because no ECB was left.
    pub missed: u64,
    /// The largest number of [units](crate::kernel::Costs::BUDGET) of work that one hit used, at most [`Host::BUDGET`](crate::Host::BUDGET).
    /// A unit is about a nanosecond. Interrupts were off for about this time.
    pub most_work: u64,
    /// The longest time in nanoseconds for which the host kept interrupts off to synchronise all CPUs
    /// ([`Host::longest_sync`](crate::Host::longest_sync)); 0 if the host does not measure it.
    pub longest_sync: u64,
}

impl Counters {
    /// Returns the sums of the counters of these CPUs.
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
            most_work: cpus.iter().map(|cpu| cpu.work.most().into()).max().unwrap_or_default(),
            ..Self::default()
        }
    }
}
