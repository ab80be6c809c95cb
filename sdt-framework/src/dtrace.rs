//! The framework's state.

use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use lock_api::MutexGuard;

use crate::arena::Arena;
use crate::buffer::{Consumer, ConsumerError, ConsumerId};
use crate::config::{Config, InitError};
use crate::ecb::chain::{Chain, Node};
use crate::ecb::{EcbNode, Tally};
use crate::host::{Host, Mutex};
use crate::postmortem::Head;
use crate::providers::{OwnProbes, Profile};
use crate::registry::Origin;
use crate::registry::tables::Tables;
use crate::sync::{AtomicCount, AtomicU32, Count, UnsafeCell, widen};

/// A tracing framework: providers and their probes, consumers and their enablings, and the buffers
/// between them.
///
/// Meant to be a `static`. All memory that it uses is handed over at boot, with [`init`](Self::init). Before that
/// nothing can be registered and nobody can open it.
///
/// All functions but [`probe`](Self::probe), [`probe5`](Self::probe5), [`counters`](Self::counters),
/// [`suspend`](Self::suspend) and [`resume`](Self::resume) take locks, of the kind that the [host](Host::Lock) has, so
/// they are called by threads with interrupts on, never in an interrupt handler or in probe context.
pub struct Dtrace<H: Host> {
    pub(crate) host: H,
    /// Held over registration, unregistration and the `provide` ops (DTrace's `dtrace_provider_lock`).
    /// Taken before `tables`.
    pub(crate) registration: Mutex<H, ()>,
    /// The framework's lock (DTrace's `dtrace_lock`), held over all other ops outside probe context.
    pub(crate) tables: Mutex<H, Tables>,
    shared: spin::Once<Shared<H>>,
    pub(crate) stray: AtomicCount,
    pub(crate) missed: AtomicCount,
    /// The probes of the provider `dtrace`.
    pub(crate) own: OwnProbes,
    /// The provider `profile`.
    pub(crate) profile: spin::Once<Profile>,
}

/// What probe context has to do with.
pub(crate) struct Shared<H: Host> {
    // Read by it. Written with `tables` locked.
    pub(crate) probes: &'static [LiveProbe],
    pub(crate) ecbs: &'static [EcbNode],
    pub(crate) consumers: &'static [Consumer<H>],
    /// Written by it, with the consumers' buffers.
    pub(crate) cpus: &'static [PerCpu],
}

impl<H: Host> Shared<H> {
    /// `None` when there is no room.
    fn new(arena: &mut Arena, config: &Config, cpus: usize) -> Option<Self> {
        Some(Self {
            probes: arena.slice(config.probes, |_| LiveProbe::new())?.leak(),
            ecbs: arena.slice(config.ecbs, |_| Node::new())?.leak(),
            consumers: arena.slice(config.consumers, |_| Consumer::closed())?.leak(),
            cpus: arena.slice(cpus, |_| PerCpu::new())?.leak(),
        })
    }

    pub(crate) fn consumer(
        &self,
        id: ConsumerId,
    ) -> Result<(usize, &'static Consumer<H>), ConsumerError> {
        self.consumers
            .iter()
            .enumerate()
            .find(|(_, consumer)| consumer.is(id))
            .ok_or(ConsumerError::NotOpen(id))
    }
}

/// Keeps out who would change which probes, enablings and consumers there are ([`Dtrace::try_hold`]).
#[must_use = "others are kept out until this is dropped"]
pub struct Held<'a, H: Host> {
    _registration: MutexGuard<'a, H::Lock, ()>,
    _tables: MutexGuard<'a, H::Lock, Tables>,
}

impl<H: Host> fmt::Debug for Held<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// The part of a probe that is read when it fires.
#[derive(Debug)]
pub(crate) struct LiveProbe {
    is_live: AtomicBool,
    pub(crate) chain: Chain,
    /// The number of the predicate of the only enabling, if it is one that can be cached; otherwise 0
    /// (`dtpr_predcache`).
    pub(crate) predicate: AtomicU32,
    origin: UnsafeCell<Origin>,
}

// SAFETY: the origin is written while the probe is not live and no CPU still looks at it; the pointers in
// it are the provider's and only handed back to it.
unsafe impl Sync for LiveProbe {}

impl LiveProbe {
    fn new() -> Self {
        Self {
            is_live: AtomicBool::new(false),
            chain: Chain::new(),
            predicate: AtomicU32::new(0),
            origin: UnsafeCell::new(Origin::NONE),
        }
    }

    /// Makes the id a probe.
    ///
    /// # Safety
    /// It is not live, and since it is not every CPU has been outside probe context. The
    /// framework is locked.
    pub(crate) unsafe fn publish(&self, origin: Origin) {
        // SAFETY: nobody reads the origin of what is not live, by the contract above.
        self.origin.with_mut(|cell| unsafe { cell.write(origin) });
        self.is_live.store(true, Ordering::Release);
    }

    /// The probe goes away.
    pub(crate) fn retract(&self) {
        self.is_live.store(false, Ordering::Release);
    }

    /// Notes whether there is one enabling, with a predicate that can be cached. The framework is locked.
    pub(crate) fn cache_predicate(&self, ecbs: &[EcbNode]) {
        let (mut count, mut cache) = (0, 0);
        self.chain.for_each(ecbs, |_, ecb| {
            count += 1;
            // SAFETY: it is on the chain, and the framework locked.
            cache = unsafe { ecb.what.clause() }.map_or(0, |clause| clause.cache);
        });
        self.predicate.store(if count == 1 { cache } else { 0 }, Ordering::Relaxed);
    }

    /// Whether the id is a probe. Probe context. Acquire, with the Release of `publish`: the origin is there.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// The provider's part: of a probe that is live, or was when this CPU entered probe context, its own.
    ///
    /// # Safety
    /// It is used in this probe context only, or the framework is locked.
    pub(crate) unsafe fn origin(&self) -> &Origin {
        // SAFETY: nobody writes to it while it is live, nor before every CPU has left the probe context in which it was;
        // by the contract above nobody uses it longer.
        self.origin.with(|origin| unsafe { &*origin })
    }
}

/// What one CPU counts. On cache lines of its own.
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
}

/// Hits of a CPU after which it looks at the clock, even if nobody else does.
const CHECK: Count = 256;

impl PerCpu {
    fn new() -> Self {
        let zero = || AtomicCount::new(0);
        Self {
            in_probe: AtomicBool::new(false),
            hits: zero(),
            unclaimed: zero(),
            records: zero(),
            drops: zero(),
            unknown: zero(),
            reentered: zero(),
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

    /// Between `enter` and `leave`: whether it is time to see if consumers are still there. That is so every now and then.
    pub(crate) fn is_time_to_check(&self) -> bool {
        self.hits.load(Ordering::Relaxed).is_multiple_of(CHECK)
    }

    /// Between `enter` and `leave`: a probe was hit, and this became of it; `None`: it was an id that is no probe.
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
fn bump(count: &AtomicCount, by: u32) {
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

impl<H: Host> Dtrace<H> {
    /// A framework that has no memory yet.
    pub const fn new(host: H) -> Self {
        Self {
            host,
            registration: Mutex::<H, _>::new(()),
            tables: Mutex::<H, _>::new(Tables::none()),
            shared: spin::Once::new(),
            stray: AtomicCount::new(0),
            missed: AtomicCount::new(0),
            own: OwnProbes::new(),
            profile: spin::Once::new(),
        }
    }

    /// Gives the framework its memory, of any size that makes room for the tables of this configuration; what is left is
    /// for buffers. From here on it works. The host's [`cpus`](Host::cpus) are all that there will be.
    ///
    /// [`Config::memory`] says how much would be good; [`Memory`](crate::Memory) is some, where the host has no other.
    ///
    /// # Errors
    /// See [`InitError`].
    pub fn init(
        &self,
        memory: &'static mut [MaybeUninit<u8>],
        config: &Config,
    ) -> Result<(), InitError> {
        config.check()?;
        let mut tables = self.tables.lock();
        if self.shared.is_completed() {
            return Err(InitError::Ready);
        }
        let (cpus, given) = (self.host.cpus(), memory.len());
        let too_small = InitError::TooSmall { needed: config.tables::<H>(cpus), given };
        if given < config.tables::<H>(cpus) {
            return Err(too_small);
        }
        let end = memory.as_ptr_range().end.addr();
        let mut arena = Arena::new(memory);
        let head = Head::first(&mut arena).ok_or(too_small)?;
        let shared = Shared::new(&mut arena, config, cpus).ok_or(too_small)?;
        *tables = Tables::new(arena, config).ok_or(too_small)?;
        tables.show(head, end, cpus);
        self.shared.call_once(|| shared);
        Ok(())
    }

    /// What probe context has to do with, once there is memory.
    pub(crate) fn shared(&self) -> Result<&Shared<H>, ConsumerError> {
        self.shared.get().ok_or(ConsumerError::NotReady)
    }

    /// Locks everything that changes which probes, enablings and consumers there are, if nobody is changing it: for a host that
    /// is about to be copied, as the child of a `fork` is.
    pub fn try_hold(&self) -> Option<Held<'_, H>> {
        let registration = self.registration.try_lock()?;
        Some(Held { _tables: self.tables.try_lock()?, _registration: registration })
    }

    /// The kernel's side.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// A hit whose probe was disabled while it was on its way. Probe context.
    #[cold]
    pub(crate) fn hit_is_overtaken(&self) {
        let cpu = self.host.cpu();
        let Some(this) = self.shared.get().and_then(|shared| shared.cpus.get(cpu)) else {
            self.stray.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if this.enter() {
            this.count(Some(Tally::default()));
            this.leave();
        }
    }

    /// Bytes of the memory that are left for buffers and retained enablings. They need not be in one piece.
    pub fn memory_left(&self) -> usize {
        self.tables.lock().arena.left()
    }

    /// What happened so far. Callable anywhere; the counts are taken one after the other while CPUs go
    /// on counting.
    pub fn counters(&self) -> Counters {
        let cpus = self.shared.get().map_or(&[][..], |shared| shared.cpus);
        let sum = |count: fn(&PerCpu) -> &AtomicCount| {
            cpus.iter()
                .map(|cpu| widen(count(cpu).load(Ordering::Relaxed)))
                .fold(0, u64::wrapping_add)
        };
        Counters {
            hits: sum(|cpu| &cpu.hits),
            unclaimed: sum(|cpu| &cpu.unclaimed),
            records: sum(|cpu| &cpu.records),
            drops: sum(|cpu| &cpu.drops),
            reentered: sum(|cpu| &cpu.reentered),
            unknown: sum(|cpu| &cpu.unknown),
            stray: widen(self.stray.load(Ordering::Relaxed)),
            missed: widen(self.missed.load(Ordering::Relaxed)),
        }
    }
}

impl<H: Host + fmt::Debug> fmt::Debug for Dtrace<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dtrace").field("host", &self.host).finish_non_exhaustive()
    }
}
