//! What the framework knows of providers and probes, apart from what probe context reads. All of it is
//! behind the framework's lock.
//!
//! No step here takes longer the more probes there are, but for a walk over those that a description may
//! mean. Those are few where it names a function or a probe: they are in one bucket of an index, as in
//! DTrace (`dtrace_hash_t`).

use core::ffi::c_void;

use dtrace_abi::name::Name;
use dtrace_abi::spec::Spec;
use heapless::Vec;
use sdt_core::ops::{
    FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN, PROVIDER_NAME_LEN, Privileges,
    ProviderAttr, ProviderId, ProviderOps,
};

use crate::registry::links::{Links, List};

/// A pointer of the provider's, which the framework hands back and never follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opaque(pub(crate) *mut c_void);

// SAFETY: it is never dereferenced here; whoever registered it declared its ops fit to be called with
// it in the contexts stated for them, that is from any thread.
unsafe impl Send for Opaque {}

#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: Name<PROVIDER_NAME_LEN>,
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
struct ProviderEntry {
    /// How many providers it has held: part of the id, so that no id is used twice.
    generation: usize,
    provider: Option<Provider>,
}

#[derive(Debug)]
pub(crate) struct Probe {
    /// Index of its provider.
    pub(crate) provider: usize,
    /// How many ECBs are on its chain.
    pub(crate) ecbs: usize,
    pub(crate) module: Name<MODULE_NAME_LEN>,
    pub(crate) function: Name<FUNCTION_NAME_LEN>,
    pub(crate) name: Name<PROBE_NAME_LEN>,
    pub(crate) parg: Opaque,
}

/// Probes by one of their names: each is in the bucket of that name, with those of some other names.
#[derive(Debug)]
struct Index<const PROBES: usize> {
    buckets: [List; PROBES],
    links: Links<PROBES>,
}

impl<const PROBES: usize> Index<PROBES> {
    const fn new() -> Self {
        Self { buckets: [List::EMPTY; PROBES], links: Links::new() }
    }

    fn bucket(name: &[u8]) -> usize {
        let hash = |hash: u32, byte: &u8| hash.wrapping_mul(31).wrapping_add((*byte).into());
        name.iter().fold(0, hash) as usize % PROBES
    }

    fn insert(&mut self, name: &[u8], at: usize) {
        self.links.push(&mut self.buckets[Self::bucket(name)], at);
    }

    fn remove(&mut self, name: &[u8], at: usize) {
        self.links.remove(&mut self.buckets[Self::bucket(name)], at);
    }

    fn find(&self, name: &[u8]) -> Candidates<'_, PROBES> {
        Candidates { list: self.buckets[Self::bucket(name)], links: &self.links }
    }
}

/// A list that all probes are in which a description can mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a, const PROBES: usize> {
    list: List,
    links: &'a Links<PROBES>,
}

impl<'a, const PROBES: usize> Candidates<'a, PROBES> {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> + 'a {
        core::iter::successors(self.list.first(), move |at| self.links.next(*at))
    }
}

/// Which ECBs are free, whose the others are, and which are unlinked but perhaps still being looked at.
#[derive(Debug)]
pub(crate) struct EcbPool<const ECBS: usize, const CONSUMERS: usize> {
    links: Links<ECBS>,
    free: List,
    retired: List,
    /// Each consumer's.
    of: [List; CONSUMERS],
    uses: Vec<EcbUse, ECBS>,
}

/// What an ECB is used for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcbUse {
    /// Index of its probe.
    pub(crate) probe: usize,
    /// Which call of `enable` it is of.
    pub(crate) enabling: usize,
}

impl<const ECBS: usize, const CONSUMERS: usize> EcbPool<ECBS, CONSUMERS> {
    const fn new() -> Self {
        Self {
            links: Links::new(),
            free: List::EMPTY,
            retired: List::EMPTY,
            of: [List::EMPTY; CONSUMERS],
            uses: Vec::new(),
        }
    }

    pub(crate) fn available(&self) -> usize {
        self.free.len() + (ECBS - self.uses.len())
    }

    /// The index of an ECB that nobody looks at, for a consumer.
    pub(crate) fn take(&mut self, consumer: usize, what: EcbUse) -> Option<usize> {
        let at = match self.links.pop(&mut self.free) {
            Some(at) => {
                self.uses[at] = what;
                at
            }
            None => {
                self.uses.push(what).ok()?;
                self.uses.len() - 1
            }
        };
        self.links.push(&mut self.of[consumer], at);
        Some(at)
    }

    /// A consumer's ECBs, oldest first, from one on.
    pub(crate) fn first_of(&self, consumer: usize) -> Option<usize> {
        self.of[consumer].first()
    }

    /// The one behind it.
    pub(crate) fn next(&self, at: usize) -> Option<usize> {
        self.links.next(at)
    }

    pub(crate) fn used_for(&self, at: usize) -> EcbUse {
        self.uses[at]
    }

    /// A consumer's ECB has been unlinked.
    pub(crate) fn retire(&mut self, consumer: usize, at: usize) {
        self.links.remove(&mut self.of[consumer], at);
        self.links.push(&mut self.retired, at);
    }

    pub(crate) fn has_retired(&self) -> bool {
        self.retired.len() != 0
    }

    /// Since the last `retire` every CPU has been outside probe context.
    pub(crate) fn reclaim(&mut self) {
        while let Some(at) = self.links.pop(&mut self.retired) {
            self.links.push(&mut self.free, at);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tables<
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
    const CONSUMERS: usize,
> {
    providers: Vec<ProviderEntry, PROVIDERS>,
    /// As far as they were ever used.
    probes: Vec<Option<Probe>, PROBES>,
    /// Entries that were used before, the oldest first: an id is used again as late as possible, so that a
    /// probe that was destroyed is told apart from its successor.
    free: List,
    /// Of each provider's list of probes, and of `free`.
    links: Links<PROBES>,
    by_function: Index<PROBES>,
    by_name: Index<PROBES>,
    pub(crate) ecbs: EcbPool<ECBS, CONSUMERS>,
    /// Calls of `enable` ever.
    pub(crate) enablings: usize,
    /// The number last given to a consumer.
    pub(crate) last_consumer: u32,
    /// How many probes have been compared with descriptions or names.
    #[cfg(test)]
    pub(crate) compared: core::sync::atomic::AtomicUsize,
}

impl<const PROBES: usize, const ECBS: usize, const PROVIDERS: usize, const CONSUMERS: usize>
    Tables<PROBES, ECBS, PROVIDERS, CONSUMERS>
{
    /// Empty tables; all zeros.
    pub(crate) const fn new() -> Self {
        Self {
            providers: Vec::new(),
            probes: Vec::new(),
            free: List::EMPTY,
            links: Links::new(),
            by_function: Index::new(),
            by_name: Index::new(),
            ecbs: EcbPool::new(),
            enablings: 0,
            last_consumer: 0,
            #[cfg(test)]
            compared: core::sync::atomic::AtomicUsize::new(0),
        }
    }

    pub(crate) fn add_provider(&mut self, provider: Provider) -> Option<ProviderId> {
        let free = self.providers.iter().position(|entry| entry.provider.is_none());
        let at = match free {
            Some(at) => at,
            None => {
                self.providers.push(ProviderEntry { generation: 0, provider: None }).ok()?;
                self.providers.len() - 1
            }
        };
        let entry = &mut self.providers[at];
        entry.provider = Some(provider);
        Some(Self::provider_id(entry.generation, at))
    }

    /// The number of what an entry holds. From 1.
    fn provider_id(generation: usize, at: usize) -> ProviderId {
        ProviderId::new(generation.wrapping_mul(PROVIDERS).wrapping_add(at + 1))
    }

    /// The index of a registered provider.
    pub(crate) fn find_provider(&self, id: ProviderId) -> Option<usize> {
        let at = id.get().checked_sub(1)? % PROVIDERS;
        let entry = self.providers.get(at).filter(|entry| entry.provider.is_some())?;
        (Self::provider_id(entry.generation, at) == id).then_some(at)
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
        self.probes.len()
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
    pub(crate) fn add_probe(&mut self, probe: Probe) -> Option<usize> {
        let provider = self.providers.get_mut(probe.provider)?.provider.as_mut()?;
        let at = if self.probes.is_full() {
            self.links.pop(&mut self.free)?
        } else {
            self.probes.push(None).ok()?;
            self.probes.len() - 1
        };
        self.links.push(&mut provider.probes, at);
        self.by_function.insert(probe.function.to_bytes(), at);
        self.by_name.insert(probe.name.to_bytes(), at);
        self.probes[at] = Some(probe);
        Some(at)
    }

    /// Frees the entry of a probe that is not enabled.
    pub(crate) fn remove_probe(&mut self, at: usize) {
        let Some(probe) = self.probes.get_mut(at).and_then(Option::take) else { return };
        self.by_function.remove(probe.function.to_bytes(), at);
        self.by_name.remove(probe.name.to_bytes(), at);
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

    /// The index of the first probe of the provider with exactly these names.
    pub(crate) fn find_probe(
        &self,
        provider: usize,
        [module, function, name]: [&[u8]; 3],
    ) -> Option<usize> {
        let candidates = [self.by_name.find(name), self.by_function.find(function)];
        let shortest = candidates.into_iter().min_by_key(Candidates::len)?;
        shortest.iter().find(|&at| {
            self.count_comparison();
            self.probe(at).is_some_and(|(probe, _)| {
                probe.provider == provider
                    && probe.name == *name
                    && probe.function == *function
                    && probe.module == *module
            })
        })
    }

    /// The shortest list that all probes are in which a description means, if there is one.
    pub(crate) fn candidates(&self, spec: &Spec) -> Option<Candidates<'_, PROBES>> {
        let [provider, function, name] = spec.exact();
        let by_function = function.map(|function| self.by_function.find(function));
        let by_name = name.map(|name| self.by_name.find(name));
        let of_provider = provider.and_then(|name| {
            // Several may have one name.
            let mut named = self.providers.iter().filter_map(|entry| {
                entry.provider.as_ref().filter(|provider| provider.name == *name)
            });
            match (named.next(), named.next()) {
                (first, None) => Some(Candidates {
                    list: first.map_or(List::EMPTY, |first| first.probes),
                    links: &self.links,
                }),
                _ => None,
            }
        });
        [by_name, by_function, of_provider].into_iter().flatten().min_by_key(Candidates::len)
    }

    /// Whether a description means this probe. Those of an invalidated provider are never meant.
    pub(crate) fn matches(&self, at: usize, spec: &Spec) -> bool {
        self.count_comparison();
        self.probe(at).is_some_and(|(probe, provider)| {
            !provider.defunct
                && spec.matches([
                    provider.name.to_bytes(),
                    probe.module.to_bytes(),
                    probe.function.to_bytes(),
                    probe.name.to_bytes(),
                ])
        })
    }

    fn count_comparison(&self) {
        #[cfg(test)]
        self.compared.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
}
