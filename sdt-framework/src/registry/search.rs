//! Finds the probes that a description matches, without a search of all probes: if it names a function or a probe, only
//! the probes that have this name are compared (`dtrace_hash_t`).

use dtrace_abi::spec::Spec;

use super::tables::Registry;
use crate::base::links::{Links, List};
use crate::base::names::{NameRef, Part};

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
    pub(crate) fn find_probe(&self, provider: usize, names: [&[u8]; 3]) -> Option<usize> {
        let [module, function, name] =
            Part::ALL.map(|part| self.names.find(part, names[part as usize]));
        let names = [module?, function?, name?];
        let [_, function, name] = names;
        let candidates = [self.with_name(name), self.with_function(function)];
        let shortest = candidates.into_iter().min_by_key(Candidates::len)?;
        shortest.iter().find(|&at| {
            self.count_comparison();
            self.probe(at)
                .is_some_and(|(probe, _)| probe.provider == provider && probe.names == names)
        })
    }

    fn with_function(&self, function: NameRef) -> Candidates<'_> {
        Candidates { list: self.names.uses(function), links: &self.by_function }
    }

    fn with_name(&self, name: NameRef) -> Candidates<'_> {
        Candidates { list: self.names.uses(name), links: &self.by_name }
    }

    /// Returns the shortest list that contains every probe that the description can match; `None` if there is no such
    /// list: the description has no exact name of a function, of a probe, or of a single provider.
    pub(crate) fn candidates(&self, spec: &Spec) -> Option<Candidates<'_>> {
        let [provider, function, name] = spec.exact();
        let none = Candidates { list: List::EMPTY, links: &self.links };
        let by_function = function.map(|function| {
            self.names
                .find(Part::Function, function)
                .map_or(none, |found| self.with_function(found))
        });
        let by_name = name.map(|name| {
            self.names.find(Part::Name, name).map_or(none, |found| self.with_name(found))
        });
        let of_provider = provider.and_then(|name| {
            // Several providers may have the same name.
            let mut named = self.providers.iter().filter_map(|entry| {
                entry.provider.as_ref().filter(|provider| provider.source.name == *name)
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
            let [module, function, name] = self.texts(&probe);
            !provider.defunct && spec.matches([provider.source.text(), module, function, name])
        })
    }

    fn count_comparison(&self) {
        #[cfg(test)]
        self.compared.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
}
