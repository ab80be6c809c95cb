//! All data that the framework's lock protects.

use crate::base::arena::{Arena, Owned};
use crate::base::links::{Link, List};
use crate::control::config::Config;
use crate::control::dump;
use crate::control::error::ConsumerError;
use crate::control::pool::{EcbEntry, EcbPool, EcbUse};
use crate::control::retained::Retained;
use crate::control::session::Session;
use crate::registry::tables::Registry;
use crate::run::consumer::ConsumerId;
use crate::run::fire::Enabled;

/// The registry, the sessions and enablings of consumers, and the free memory.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(super) registry: Registry<Enabled>,
    pub(super) ecbs: EcbPool,
    /// The retained enablings: the latest first, except that clauses of one program keep their order.
    pub(super) retained: Option<Owned<Retained>>,
    /// The number of threads that are providing probes. The last one matches the new probes with retained enablings.
    pub(super) providing: usize,
    /// The lowest index of a probe that was created while a thread provided probes, and is not matched yet.
    pub(super) fresh: Option<usize>,
    /// The number of enablings that were ever created.
    pub(super) enablings: u32,
    /// The number of the last consumer that was opened.
    pub(super) last_consumer: u32,
    /// Bytes of a buffer, if its consumer does not choose them.
    pub(super) buffer: usize,
    /// The largest size in bytes of all buffers of a consumer together, if they may be smaller than requested.
    pub(super) share: usize,
    /// The consumer of the anonymous enabling, until another consumer claims it.
    pub(super) anonymous: Option<ConsumerId>,
    /// The last number that was assigned to a predicate.
    pub(super) last_predicate: u32,
    /// The state that each open consumer has sent.
    pub(super) sessions: &'static mut [Option<Owned<Session>>],
    /// Describes the memory for dumps.
    pub(super) map: dump::Map,
    /// The rest of the memory.
    pub(super) arena: Arena,
}

/// Returns the largest number of bytes that the tables take.
pub(super) const fn footprint(config: &Config) -> usize {
    let Config { providers, probes, ecbs, consumers, .. } = *config;
    let parts = [
        Registry::<Enabled>::footprint(providers, probes, ecbs),
        Arena::footprint::<EcbEntry>(ecbs),
        Arena::footprint::<Link>(ecbs),
        Arena::footprint::<List>(consumers),
        Arena::footprint::<Option<Owned<Session>>>(consumers),
        dump::footprint(config),
    ];
    let (mut sum, mut at) = (0usize, 0);
    while at < parts.len() {
        sum = sum.saturating_add(parts[at]);
        at += 1;
    }
    sum
}

impl Tables {
    /// Creates empty tables.
    pub(super) const fn none() -> Self {
        Self {
            registry: Registry::none(),
            ecbs: EcbPool::none(),
            retained: None,
            providing: 0,
            fresh: None,
            enablings: 0,
            last_consumer: 0,
            buffer: 0,
            share: usize::MAX,
            anonymous: None,
            last_predicate: 0,
            sessions: &mut [],
            map: dump::Map::none(),
            arena: Arena::none(),
        }
    }

    /// Creates tables of the configured sizes in this memory; `None` if it is too small.
    pub(super) fn new(mut arena: Arena, config: &Config) -> Option<Self> {
        let Config { providers, probes, ecbs, consumers, buffer } = *config;
        Some(Self {
            registry: Registry::new(&mut arena, providers, probes, ecbs)?,
            ecbs: EcbPool::new(&mut arena, config)?,
            buffer,
            sessions: arena.slice(consumers, |_| None)?.leak(),
            map: dump::Map::new(&mut arena, config)?,
            arena,
            ..Self::none()
        })
    }

    /// Returns the state that an open consumer has sent.
    pub(super) fn session(&mut self, consumer: usize) -> Option<&mut Session> {
        self.sessions.get_mut(consumer)?.as_deref_mut()
    }

    /// Returns the error for a request of this number of bytes.
    pub(super) fn no_memory(&self, needed: usize) -> ConsumerError {
        ConsumerError::NoMemory { needed, left: self.arena.left() }
    }

    /// Takes an ECB for an enabled probe of a consumer. Returns the ECB and the number of the enabled probe; `None` if
    /// no ECB is left.
    pub(super) fn take_ecb(&mut self, what: EcbUse) -> Option<(usize, u32)> {
        if self.ecbs.available() == 0 {
            return None;
        }
        let last = &mut self.session(what.consumer as usize)?.last_epid;
        *last = last.checked_add(1)?;
        let epid = *last;
        Some((self.ecbs.take(EcbUse { epid, ..what })?, epid))
    }
}
