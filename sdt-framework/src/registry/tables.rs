//! What the framework knows of providers and probes, apart from what probe context reads. All of it is
//! behind the framework's lock.
//!
//! No step here takes longer the more probes there are, but for a [walk](super::search) over those that a description may
//! mean.

use core::ffi::c_void;

use sdt_core::ops::{Privileges, ProviderAttr, ProviderId, ProviderOps};

use crate::arena::{Arena, Owned};
use crate::buffer::ConsumerId;
use crate::config::Config;
use crate::ecb::pool::{EcbEntry, EcbPool, EcbUse};
use crate::ecb::{Retained, What};
use crate::postmortem;
use crate::program::session::Session;
use crate::registry::links::{Link, Links, List};
use crate::registry::names::{Names, Place, ProviderName};
use crate::registry::search::Index;
use crate::rights::Rights;

/// A pointer of the provider's, which the framework hands back and never follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opaque(pub(crate) *mut c_void);

// SAFETY: it is never dereferenced here; whoever registered it declared its ops fit to be called with
// it in the contexts stated for them, that is from any thread.
unsafe impl Send for Opaque {}

#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: &'static ProviderName,
    pub(crate) attr: ProviderAttr,
    pub(crate) privileges: Privileges,
    pub(crate) ops: ProviderOps,
    pub(crate) arg: Opaque,
    /// Invalidated: no description means its probes.
    pub(crate) defunct: bool,
    /// Its probes.
    pub(crate) probes: List,
    /// How many of them are enabled.
    pub(crate) enabled: usize,
}

/// An entry of the table of providers.
#[derive(Debug)]
pub(super) struct ProviderEntry {
    /// How many providers it has held: part of the id, so that no id is used twice.
    generation: usize,
    pub(super) provider: Option<Provider>,
}

#[derive(Debug)]
pub(crate) struct Probe {
    /// Index of its provider.
    pub(crate) provider: usize,
    /// How many ECBs are on its chain.
    pub(crate) ecbs: usize,
    /// How many probes were created before it.
    pub(crate) created: usize,
    /// Whether it was enabled by what meant it when it was created.
    pub(crate) is_matched: bool,
    pub(crate) names: &'static Names,
    pub(crate) parg: Opaque,
}

/// Bytes that the tables take at most.
pub(crate) const fn footprint(config: &Config) -> usize {
    let Config { providers, probes, ecbs, consumers, .. } = *config;
    let parts = [
        Arena::footprint::<ProviderEntry>(providers),
        Arena::footprint::<Option<Probe>>(probes),
        Arena::footprint::<Place<ProviderName>>(providers),
        Arena::footprint::<Place<Names>>(probes),
        // Of each provider's list, and of the two indexes.
        Arena::footprint::<Link>(probes).saturating_mul(3),
        Arena::footprint::<List>(probes).saturating_mul(2),
        Arena::footprint::<EcbEntry>(ecbs),
        Arena::footprint::<Link>(ecbs),
        Arena::footprint::<List>(consumers),
        Arena::footprint::<Option<Owned<Session>>>(consumers),
        postmortem::footprint(config),
    ];
    let (mut sum, mut at) = (0usize, 0);
    while at < parts.len() {
        sum = sum.saturating_add(parts[at]);
        at += 1;
    }
    sum
}

#[derive(Debug)]
pub(crate) struct Tables {
    pub(super) providers: &'static mut [ProviderEntry],
    probes: &'static mut [Option<Probe>],
    /// Of each entry of the two.
    provider_names: &'static [Place<ProviderName>],
    names: &'static [Place<Names>],
    /// How many entries of `probes` were ever used.
    used: usize,
    /// Entries that were used before, the oldest first: an id is used again as late as possible, so that a
    /// probe that was destroyed is told apart from its successor.
    free: List,
    /// Of each provider's list of probes, and of `free`.
    pub(super) links: Links,
    pub(super) by_function: Index,
    pub(super) by_name: Index,
    pub(crate) ecbs: EcbPool,
    /// The enablings that count, the latest first.
    pub(crate) retained: Option<Owned<Retained>>,
    /// Probes created ever.
    pub(crate) created: usize,
    /// How many are creating probes that are to be enabled afterwards.
    pub(crate) providing: usize,
    /// No probe below this index was created by them and is not matched yet.
    pub(crate) fresh: Option<usize>,
    /// Calls of `enable` ever.
    pub(crate) enablings: usize,
    /// The number last given to a consumer.
    pub(crate) last_consumer: u32,
    /// Bytes of a buffer, if its consumer does not choose them.
    pub(crate) buffer: usize,
    /// Bytes of all buffers of a consumer's programs, if these can be smaller than it says.
    pub(crate) share: usize,
    /// The consumer for which something was enabled before it came.
    pub(crate) anonymous: Option<ConsumerId>,
    /// The number that was last given to a predicate.
    pub(crate) last_predicate: u32,
    /// What each open consumer has sent.
    pub(crate) sessions: &'static mut [Option<Owned<Session>>],
    /// For who finds the memory in a dump.
    pub(crate) map: postmortem::Map,
    /// What is left of the memory.
    pub(crate) arena: Arena,
    /// How many probes have been compared with descriptions or names.
    #[cfg(test)]
    pub(crate) compared: core::sync::atomic::AtomicUsize,
}

impl Tables {
    /// What an open consumer has sent.
    pub(crate) fn session(&mut self, consumer: usize) -> Option<&mut Session> {
        self.sessions.get_mut(consumer)?.as_deref_mut()
    }

    /// The next number for an enabled probe of a consumer's.
    fn next_epid(&mut self, consumer: usize) -> Option<u32> {
        let last = &mut self.session(consumer)?.last_epid;
        *last = last.checked_add(1)?;
        Some(*last)
    }

    /// An ECB for a consumer, and the number of the enabled probe.
    pub(crate) fn take_ecb(
        &mut self,
        consumer: usize,
        probe: usize,
        enabling: usize,
        what: What,
    ) -> Option<(usize, u32)> {
        if self.ecbs.available() == 0 {
            return None;
        }
        let epid = self.next_epid(consumer)?;
        let ecb = self.ecbs.take(consumer, EcbUse { epid, probe, enabling, what })?;
        if let Some((found, _)) = self.probe(probe) {
            let named = postmortem::Named { probe, provider: found.provider };
            self.map.enable(ecb, consumer, epid, named, what);
        }
        Some((ecb, epid))
    }

    /// Tables without room for anything.
    pub(crate) const fn none() -> Self {
        Self {
            providers: &mut [],
            probes: &mut [],
            provider_names: &[],
            names: &[],
            used: 0,
            free: List::EMPTY,
            links: Links::none(),
            by_function: Index::none(),
            by_name: Index::none(),
            ecbs: EcbPool::none(),
            retained: None,
            created: 0,
            providing: 0,
            fresh: None,
            enablings: 0,
            last_consumer: 0,
            buffer: 0,
            share: usize::MAX,
            anonymous: None,
            last_predicate: 0,
            sessions: &mut [],
            map: postmortem::Map::none(),
            arena: Arena::none(),
            #[cfg(test)]
            compared: core::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Tables with room for what the configuration says, in this memory; `None` when it does not suffice.
    pub(crate) fn new(mut arena: Arena, config: &Config) -> Option<Self> {
        let entry = |_| ProviderEntry { generation: 0, provider: None };
        Some(Self {
            providers: arena.slice(config.providers, entry)?.leak(),
            probes: arena.slice(config.probes, |_| None)?.leak(),
            provider_names: arena.slice(config.providers, |_| Place::new())?.leak(),
            names: arena.slice(config.probes, |_| Place::new())?.leak(),
            links: Links::new(&mut arena, config.probes)?,
            by_function: Index::new(&mut arena, config.probes)?,
            by_name: Index::new(&mut arena, config.probes)?,
            ecbs: EcbPool::new(&mut arena, config)?,
            buffer: config.buffer,
            sessions: arena.slice(config.consumers, |_| None)?.leak(),
            map: postmortem::Map::new(&mut arena, config)?,
            arena,
            ..Self::none()
        })
    }

    /// Has the memory found, which ends there, if it is dumped.
    pub(crate) fn show(&mut self, head: &'static mut postmortem::Head, end: usize, cpus: usize) {
        self.map.begin(head, end, cpus, self.provider_names, self.names);
    }

    /// An ECB of a consumer's has been unlinked.
    pub(crate) fn retire_ecb(&mut self, consumer: usize, ecb: usize) {
        self.map.disable(ecb);
        self.ecbs.retire(consumer, ecb);
    }

    /// How many providers there is room for. 0 as long as there is no memory.
    pub(crate) fn max_providers(&self) -> usize {
        self.providers.len()
    }

    /// Puts a provider into the table; `None` when it is full.
    pub(crate) fn add_provider(
        &mut self,
        name: ProviderName,
        provider: impl FnOnce(&'static ProviderName) -> Provider,
    ) -> Option<ProviderId> {
        let at = self.providers.iter().position(|entry| entry.provider.is_none())?;
        let entry = &mut self.providers[at];
        // SAFETY: the entry is free: the provider that it held has no probes any more, and since it has none every
        // CPU has been outside probe context.
        entry.provider = Some(provider(unsafe { self.provider_names.get(at)?.fill(name) }));
        let generation = entry.generation;
        Some(self.provider_id(generation, at))
    }

    /// The number of what an entry holds. From 1.
    fn provider_id(&self, generation: usize, at: usize) -> ProviderId {
        ProviderId::new(generation.wrapping_mul(self.providers.len()).wrapping_add(at + 1))
    }

    /// The index of a registered provider.
    pub(crate) fn find_provider(&self, id: ProviderId) -> Option<usize> {
        let at = id.get().checked_sub(1)? % self.providers.len().max(1);
        let entry = self.providers.get(at).filter(|entry| entry.provider.is_some())?;
        (self.provider_id(entry.generation, at) == id).then_some(at)
    }

    /// The provider at an index, if one is registered there.
    pub(crate) fn provider(&self, at: usize) -> Option<&Provider> {
        self.providers.get(at)?.provider.as_ref()
    }

    pub(crate) fn provider_mut(&mut self, at: usize) -> Option<&mut Provider> {
        self.providers.get_mut(at)?.provider.as_mut()
    }

    /// Frees the entry of a provider that has no probes any more.
    pub(crate) fn remove_provider(&mut self, at: usize) {
        if let Some(entry) = self.providers.get_mut(at) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.provider = None;
        }
    }

    /// How many entries of the table of probes have ever been used.
    pub(crate) fn probes_used(&self) -> usize {
        self.used
    }

    /// The probe at an index, and its provider.
    pub(crate) fn probe(&self, at: usize) -> Option<(&Probe, &Provider)> {
        let probe = self.probes.get(at)?.as_ref()?;
        Some((probe, self.provider(probe.provider)?))
    }

    /// As `probe`, to be changed.
    pub(crate) fn probe_mut(&mut self, at: usize) -> Option<(&mut Probe, &mut Provider)> {
        let probe = self.probes.get_mut(at)?.as_mut()?;
        let provider = self.providers.get_mut(probe.provider)?.provider.as_mut()?;
        Some((probe, provider))
    }

    /// Puts a probe of a registered provider into the table and returns its index.
    pub(crate) fn add_probe(
        &mut self,
        provider_at: usize,
        names: Names,
        parg: Opaque,
    ) -> Option<usize> {
        let provider = self.providers.get_mut(provider_at)?.provider.as_mut()?;
        let at = if self.used == self.probes.len() {
            self.links.pop(&mut self.free)?
        } else {
            self.used += 1;
            self.used - 1
        };
        // SAFETY: the entry is free: a new one, or one whose probe was destroyed after every CPU had left probe
        // context.
        let names = unsafe { self.names.get(at)?.fill(names) };
        let created = self.created;
        self.created += 1;
        self.links.push(&mut provider.probes, at);
        self.by_function.insert(names.function.to_bytes(), at);
        self.by_name.insert(names.name.to_bytes(), at);
        let (ecbs, is_matched) = (0, false);
        let probe = Probe { provider: provider_at, ecbs, created, is_matched, names, parg };
        self.probes[at] = Some(probe);
        Some(at)
    }

    /// Frees the entry of a probe that is not enabled.
    pub(crate) fn remove_probe(&mut self, at: usize) {
        let Some(probe) = self.probes.get_mut(at).and_then(Option::take) else { return };
        self.by_function.remove(probe.names.function.to_bytes(), at);
        self.by_name.remove(probe.names.name.to_bytes(), at);
        let provider = self.providers.get_mut(probe.provider);
        if let Some(provider) = provider.and_then(|entry| entry.provider.as_mut()) {
            self.links.remove(&mut provider.probes, at);
        }
        self.links.push(&mut self.free, at);
    }

    /// The first of a provider's probes.
    pub(crate) fn first_of(&self, provider: usize) -> Option<usize> {
        self.provider(provider)?.probes.first()
    }

    /// The one behind it.
    pub(crate) fn next_of_provider(&self, at: usize) -> Option<usize> {
        self.links.next(at)
    }

    /// Whether the probe at an index is there for who has these rights.
    pub(crate) fn permits(&self, at: usize, rights: Rights) -> bool {
        self.probe(at).is_some_and(|(_, provider)| rights.may_use(provider.privileges))
    }
}
