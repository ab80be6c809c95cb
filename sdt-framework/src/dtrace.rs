//! The framework's state.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use crate::buffer::Consumer;
use crate::ecb::EcbNode;
use crate::ecb::chain::{Chain, Node};
use crate::host::Host;
use crate::registry::Origin;
use crate::registry::tables::Tables;
use crate::sync::{AtomicCount, Mutex, UnsafeCell, widen};

/// A tracing framework: providers and their probes, consumers and their enablings, and the buffers
/// between them.
///
/// Meant to be a `static`. All memory it will ever use is in it, about
/// `CPUS * CONSUMERS * RECORDS * 96 + PROBES * 550 + ECBS * 56` bytes, and it starts as zeros (if `H` does), so it
/// takes no room in the kernel's file.
///
/// - `CPUS`: CPUs that can fire probes.
/// - `RECORDS`: records that a buffer holds; each consumer has one buffer for each CPU.
/// - `CONSUMERS`: consumers that can be open at once.
/// - `PROBES`: probes that can exist at once.
/// - `ECBS`: enablings of single probes that can exist at once.
/// - `PROVIDERS`: providers that can be registered at once.
///
/// All functions but [`probe`](Self::probe), [`probe5`](Self::probe5), [`counters`](Self::counters),
/// [`suspend`](Self::suspend) and [`resume`](Self::resume) take locks by spinning, so they are called
/// by threads with interrupts on, never in an interrupt handler or in probe context.
pub struct Dtrace<
    H,
    const CPUS: usize = 16,
    const RECORDS: usize = 512,
    const CONSUMERS: usize = 8,
    const PROBES: usize = 1024,
    const ECBS: usize = 2048,
    const PROVIDERS: usize = 32,
> {
    pub(crate) host: H,
    /// Held over registration, unregistration and the `provide` ops (DTrace's `dtrace_provider_lock`).
    /// Taken before `tables`.
    pub(crate) registration: Mutex<()>,
    /// The framework's lock (DTrace's `dtrace_lock`), held over all other ops outside probe context.
    pub(crate) tables: Mutex<Tables<PROBES, ECBS, PROVIDERS, CONSUMERS>>,
    // What probe context reads. Written with `tables` locked.
    pub(crate) sites: [Site; PROBES],
    pub(crate) ecbs: [EcbNode; ECBS],
    pub(crate) consumers: [Consumer<CPUS, RECORDS>; CONSUMERS],
    // What probe context writes, with the consumers' buffers.
    pub(crate) cpus: [PerCpu; CPUS],
    pub(crate) stray: AtomicCount,
}

/// The part of a probe that is read when it fires.
#[derive(Debug)]
pub(crate) struct Site {
    is_live: AtomicBool,
    pub(crate) chain: Chain,
    origin: UnsafeCell<Origin>,
}

// SAFETY: the origin is written while the site is not live and no CPU still looks at it; the pointers in
// it are the provider's and only handed back to it.
unsafe impl Sync for Site {}

impl Site {
    const fn new() -> Self {
        Self {
            is_live: AtomicBool::new(false),
            chain: Chain::new(),
            origin: UnsafeCell::new(Origin::NONE),
        }
    }

    /// Makes the id a probe.
    ///
    /// # Safety
    /// The site is not live, and since it is not every CPU has been outside probe context. The
    /// framework is locked.
    pub(crate) unsafe fn publish(&self, origin: Origin) {
        // SAFETY: nobody reads the origin of a site that is not live, by the contract above.
        self.origin.with_mut(|cell| unsafe { cell.write(origin) });
        self.is_live.store(true, Ordering::Release);
    }

    /// The probe goes away.
    pub(crate) fn retract(&self) {
        self.is_live.store(false, Ordering::Release);
    }

    /// Whether the id is a probe. Probe context. Acquire, with the Release of `publish`: the origin is there.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// The provider's part, if the id is a probe. Probe context.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.is_live().then(|| {
            // SAFETY: the site is live, or was when this CPU entered probe context: nobody writes to
            // the origin before every CPU has left it.
            self.origin.with(|origin| unsafe { *origin })
        })
    }
}

/// What one CPU counts. On cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct PerCpu {
    in_probe: AtomicBool,
    hits: AtomicCount,
    unknown: AtomicCount,
    reentered: AtomicCount,
}

impl PerCpu {
    const fn new() -> Self {
        Self {
            in_probe: AtomicBool::new(false),
            hits: AtomicCount::new(0),
            unknown: AtomicCount::new(0),
            reentered: AtomicCount::new(0),
        }
    }

    /// Notes that this CPU is recording; `false`, and counted, when it was already. Probe context, on
    /// this CPU.
    pub(crate) fn enter(&self) -> bool {
        if self.in_probe.load(Ordering::Relaxed) {
            // Re-entry can interrupt re-entry, so this has to be one step.
            self.reentered.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.in_probe.store(true, Ordering::Relaxed);
        // Whatever interrupts this CPU from here on has to see the flag. It is the same CPU, so
        // keeping the compiler from moving the store is enough.
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// Ends what `enter` began.
    pub(crate) fn leave(&self) {
        compiler_fence(Ordering::SeqCst);
        self.in_probe.store(false, Ordering::Relaxed);
    }

    /// Between `enter` and `leave`: a probe was hit.
    pub(crate) fn count_hit(&self) {
        bump(&self.hits);
    }

    /// Between `enter` and `leave`: an id was hit that is no probe.
    pub(crate) fn count_unknown(&self) {
        bump(&self.unknown);
    }
}

/// Adds one to a count that has one writer.
fn bump(count: &AtomicCount) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// What happened since the framework came to be, on all CPUs.
///
/// Every call of `probe` or `probe5` is counted in exactly one of them. On targets without 64-bit atomics each CPU's
/// counts wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// A probe fired, enabled for anyone or not.
    pub hits: u64,
    /// Calls while the same CPU was in a call already. Nothing was recorded.
    pub reentered: u64,
    /// Calls with an id that is no probe, or not any more. Nothing was recorded.
    pub unknown: u64,
    /// Calls on a CPU that there is no room for. Nothing was recorded.
    pub stray: u64,
}

impl<
    H: Host,
    const CPUS: usize,
    const RECORDS: usize,
    const CONSUMERS: usize,
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
> Dtrace<H, CPUS, RECORDS, CONSUMERS, PROBES, ECBS, PROVIDERS>
{
    /// A framework without providers and consumers.
    pub const fn new(host: H) -> Self {
        const {
            assert!(CPUS > 0 && RECORDS > 0 && CONSUMERS > 0, "no room for records");
            assert!(PROBES > 0 && PROVIDERS > 0 && ECBS > 0, "no room for probes");
            // Ids and links are 32 bits wide.
            assert!((PROBES as u64) < u32::MAX as u64 && (ECBS as u64) < u32::MAX as u64);
        }
        Self {
            host,
            registration: Mutex::new(()),
            tables: Mutex::new(Tables::new()),
            sites: [const { Site::new() }; PROBES],
            ecbs: [const { Node::new() }; ECBS],
            consumers: [const { Consumer::closed() }; CONSUMERS],
            cpus: [const { PerCpu::new() }; CPUS],
            stray: AtomicCount::new(0),
        }
    }

    /// The kernel's side.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// What happened so far. Callable anywhere; the counts are taken one after the other while CPUs go
    /// on counting.
    pub fn counters(&self) -> Counters {
        let sum = |count: fn(&PerCpu) -> &AtomicCount| {
            self.cpus
                .iter()
                .map(|cpu| widen(count(cpu).load(Ordering::Relaxed)))
                .fold(0, u64::wrapping_add)
        };
        Counters {
            hits: sum(|cpu| &cpu.hits),
            reentered: sum(|cpu| &cpu.reentered),
            unknown: sum(|cpu| &cpu.unknown),
            stray: widen(self.stray.load(Ordering::Relaxed)),
        }
    }
}

impl<
    H: fmt::Debug,
    const CPUS: usize,
    const RECORDS: usize,
    const CONSUMERS: usize,
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
> fmt::Debug for Dtrace<H, CPUS, RECORDS, CONSUMERS, PROBES, ECBS, PROVIDERS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dtrace").field("host", &self.host).finish_non_exhaustive()
    }
}
