//! Finds the probes that a description matches, without a search of all probes: if it names a function or a probe, only
//! the probes in one bucket of an index are compared (`dtrace_hash_t`).

use dtrace_abi::spec::Spec;

use super::tables::Registry;
use crate::base::arena::Arena;
use crate::base::links::{Links, List};

/// An index of probes by function name or by probe name. Probes with different names can share a bucket.
#[derive(Debug)]
pub(super) struct Index {
    buckets: &'static mut [List],
    links: Links,
}

impl Index {
    pub(super) const fn none() -> Self {
        Self { buckets: &mut [], links: Links::none() }
    }

    /// Allocates an index for this number of probes; returns `None` if there is no room.
    pub(super) fn new(arena: &mut Arena, probes: usize) -> Option<Self> {
        let buckets = arena.slice(probes, |_| List::EMPTY)?.leak();
        Some(Self { buckets, links: Links::new(arena, probes)? })
    }

    fn bucket(&self, name: &[u8]) -> usize {
        let hash = |hash: u32, byte: &u8| hash.wrapping_mul(31).wrapping_add((*byte).into());
        name.iter().fold(0, hash) as usize % self.buckets.len().max(1)
    }

    pub(super) fn insert(&mut self, name: &[u8], at: usize) {
        let bucket = self.bucket(name);
        self.links.push(&mut self.buckets[bucket], at);
    }

    pub(super) fn remove(&mut self, name: &[u8], at: usize) {
        let bucket = self.bucket(name);
        self.links.remove(&mut self.buckets[bucket], at);
    }

    fn find(&self, name: &[u8]) -> Candidates<'_> {
        let list = self.buckets.get(self.bucket(name)).copied().unwrap_or(List::EMPTY);
        Candidates { list, links: &self.links }
    }
}

/// A list that contains every probe that a description can match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a> {
    list: List,
    links: &'a Links,
}

impl<'a> Candidates<'a> {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> + 'a {
        core::iter::successors(self.list.first(), move |at| self.links.next(*at))
    }
}

impl<E: Copy + 'static> Registry<E> {
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
                    && probe.names.name == *name
                    && probe.names.function == *function
                    && probe.names.module == *module
            })
        })
    }

    /// Returns the shortest list that contains every probe that the description can match; `None` if there is no such
    /// list: the description has no exact name of a function, of a probe, or of a single provider.
    pub(crate) fn candidates(&self, spec: &Spec) -> Option<Candidates<'_>> {
        let [provider, function, name] = spec.exact();
        let by_function = function.map(|function| self.by_function.find(function));
        let by_name = name.map(|name| self.by_name.find(name));
        let of_provider = provider.and_then(|name| {
            // Several providers may have the same name.
            let mut named = self.providers.iter().filter_map(|entry| {
                entry.provider.as_ref().filter(|provider| *provider.name == *name)
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

    /// Returns whether a description matches this probe. It never matches a probe of an invalidated provider.
    pub(crate) fn matches(&self, at: usize, spec: &Spec) -> bool {
        self.count_comparison();
        self.probe(at).is_some_and(|(probe, provider)| {
            !provider.defunct
                && spec.matches([
                    provider.name.to_bytes(),
                    probe.names.module.to_bytes(),
                    probe.names.function.to_bytes(),
                    probe.names.name.to_bytes(),
                ])
        })
    }

    fn count_comparison(&self) {
        #[cfg(test)]
        self.compared.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
}
