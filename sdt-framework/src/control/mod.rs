//! The layer *control*: sessions of consumers, building programs, queries, the server and the console.
//!
//! | file | task |
//! |---|---|
//! | `tables` | all data behind the framework's lock |
//! | `config`, `footprint` | sizes of tables, and the memory that they need |
//! | `error`, `refused` | errors of requests and of programs |
//! | `provide` | providers and their probes |
//! | `functions` | the provider `fbt`: functions that consumers send |
//! | `own`, `profile` | the framework's own providers: `dtrace` and `profile` |
//! | `open` | consumers open and close |
//! | `options`, `session`, `send` | consumers send options and programs |
//! | `build`, `builder`, `steps`, `programs` | building clauses from programs |
//! | `arguments` | the clause that records a probe's arguments, for consumers without a compiler |
//! | `enable`, `pool`, `retained`, `matching` | enablings of existing and of later probes |
//! | `prepare`, `start` | a consumer starts and stops |
//! | `query` | consumers read records and their descriptions |
//! | `anonymous` | tracing before a consumer connects |
//! | `halt` | a debugger stops the machine, or the host is copied or ends |
//! | `dump` | describes the memory for dumps |
//! | `tracer` | the trait by which `server` and `console` use a framework |

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use self::config::{Config, InitError};
use self::dump::Head;
use self::error::ConsumerError;
use self::functions::table::Functions;
use self::profile::Profiles;
use self::tables::Tables;
use crate::base::arena::Arena;
use crate::base::chain::Node;
use crate::base::context::{Contexts, ProbeContext};
use crate::base::counters::{Counters, PerCpu};
use crate::base::host::{Host, Mutex};
use crate::base::sync::{AtomicCount, widen};
use crate::base::word::Word;
use crate::registry::live::Live;
use crate::run::consumer::{Consumer, ConsumerId};
use crate::run::fire::{Args, Enabled, Found, Hits, Probes, Shared};

mod anonymous;
pub(crate) mod arguments;
mod build;
mod builder;
pub(crate) mod config;
pub mod console;
mod dump;
mod enable;
pub(crate) mod error;
mod footprint;
pub(crate) mod functions;
pub(crate) mod halt;
mod matching;
mod open;
mod options;
mod own;
mod pool;
mod prepare;
mod profile;
mod programs;
mod provide;
pub(crate) mod query;
pub(crate) mod refused;
mod retained;
mod send;
#[cfg(feature = "server")]
pub mod server;
mod session;
mod start;
mod steps;
mod tables;
pub(crate) mod tracer;

/// The state of a framework and the functions of the facade. Probe context calls only the functions that state it.
pub(crate) struct Control<H: Host> {
    /// The host, the probes, and all that hits read and write.
    pub(crate) hits: Hits<H, Live<Enabled>>,
    /// Held over registration, unregistration and the `provide` ops (DTrace's `dtrace_provider_lock`).
    /// Taken before `tables`.
    registration: Mutex<H, ()>,
    /// The framework's lock (DTrace's `dtrace_lock`), held over all other ops outside probe context.
    tables: Mutex<H, Tables>,
    missed: AtomicCount,
    /// The provider `profile`.
    profile: Profiles,
    /// The provider `fbt`.
    functions: Functions,
}

impl Probes for Live<Enabled> {
    #[inline(always)]
    fn find(&self, id: u32) -> Option<Found<'_>> {
        // SAFETY: `Found` is used only in this probe context.
        let (probe, origin) = unsafe { Self::find(self, id) }?;
        Some(Found {
            origin,
            predicate: probe.predicate(),
            consumers: probe.consumers(),
            chain: probe.chain(),
        })
    }

    #[inline(always)]
    fn nodes(&self) -> &[Node<Enabled>] {
        self.nodes()
    }
}

/// Finds a consumer by its number. Returns its index, too.
fn find(shared: &Shared, id: ConsumerId) -> Result<(usize, &'static Consumer), ConsumerError> {
    let mut consumers = shared.consumers.iter().enumerate();
    consumers.find(|(_, consumer)| consumer.is(id)).ok_or(ConsumerError::NotOpen(id))
}

impl<H: Host> Control<H> {
    /// Creates a framework without memory.
    pub(crate) const fn new(host: H) -> Self {
        Self {
            hits: Hits::new(host),
            registration: Mutex::<H, _>::new(()),
            tables: Mutex::<H, _>::new(Tables::none()),
            missed: AtomicCount::new(0),
            profile: Profiles::new(),
            functions: Functions::new(),
        }
    }

    /// Allocates the tables in this memory.
    pub(crate) fn init(
        &self,
        memory: &'static mut [MaybeUninit<u8>],
        config: &Config,
    ) -> Result<(), InitError> {
        config.check()?;
        // This also refuses in probe context, which does not exist before `init`.
        if self.hits.memory.is_completed() {
            return Err(InitError::Ready);
        }
        let mut tables = self.tables.lock();
        if self.hits.memory.is_completed() {
            return Err(InitError::Ready);
        }
        let (cpus, given) = (self.hits.host.cpus(), memory.len());
        let too_small = InitError::TooSmall { needed: config.tables::<H>(cpus), given };
        if given < config.tables::<H>(cpus) {
            return Err(too_small);
        }
        let end = memory.as_ptr_range().end.addr();
        let mut arena = Arena::new(memory, H::discard);
        let head = Head::first(&mut arena).ok_or(too_small)?;
        let shared = shared(&mut arena, config, cpus).ok_or(too_small)?;
        *tables = Tables::new(arena, config).ok_or(too_small)?;
        let Tables { map, registry, .. } = &mut *tables;
        map.begin(head, end, cpus, &registry.live().layout());
        // SAFETY: the flags are those of this framework, allocated above.
        unsafe { self.hits.host.contexts(Contexts::new(shared.cpus)) };
        let live = tables.registry.live();
        self.hits.memory.call_once(|| (shared, live));
        Ok(())
    }

    /// Returns the data of hits, after `init`.
    fn shared(&self) -> Result<&Shared, ConsumerError> {
        self.hits.memory.get().map(|(shared, _)| shared).ok_or(ConsumerError::NotReady)
    }

    fn consumers(&self) -> &[Consumer] {
        self.shared().map_or(&[][..], |shared| shared.consumers)
    }

    /// Refuses in probe context.
    pub(crate) fn need_thread(&self) -> Result<(), ProbeContext> {
        let Ok(shared) = self.shared() else { return Ok(()) };
        Contexts::new(shared.cpus).need_thread(|| self.hits.host.cpu())
    }

    /// Records a hit. Probe context, with interrupts off.
    #[inline(never)]
    pub(crate) fn record(&self, id: u32, args: Args<'_>) {
        self.hits.record(id, args);
    }

    /// Returns the number of CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.shared().map_or(0, |shared| shared.cpus.len())
    }

    pub(crate) fn memory_left(&self) -> usize {
        self.tables.lock().arena.left()
    }

    pub(crate) fn share_memory(&self, bytes: usize) {
        self.tables.lock().share = bytes;
    }

    /// Counts a hit that the host cannot record. Callable anywhere.
    pub(crate) fn count_stray(&self) {
        self.hits.stray.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counters. Callable anywhere.
    pub(crate) fn counters(&self) -> Counters {
        let cpus = self.shared().map_or(&[][..], |shared| shared.cpus);
        Counters {
            stray: widen(self.hits.stray.load(Ordering::Relaxed)),
            missed: widen(self.missed.load(Ordering::Relaxed)),
            longest_sync: self.hits.host.longest_sync(),
            ..Counters::of(cpus)
        }
    }
}

/// Allocates the data of hits; `None` if there is no room.
fn shared(arena: &mut Arena, config: &Config, cpus: usize) -> Option<Shared> {
    Some(Shared {
        consumers: arena.slice(config.consumers, |_| Consumer::closed())?.leak(),
        cpus: arena.slice(cpus, |_| PerCpu::new())?.leak(),
        shares: arena.slice(cpus.checked_mul(config.consumers)?, |_| Word::new())?.leak(),
    })
}

#[cfg(test)]
mod tests;
