//! Providers and probes, without the data that probe context reads. The framework's lock protects all of it.
//!
//! The cost of an operation does not depend on the number of probes, except for a [search](super::search) through the
//! probes that a description may match.

use core::ffi::{CStr, c_void};

use sdt_core::ops::{FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderId, ProviderOps};

use super::live::{Live, LiveProbe};
use super::search::Index;
use crate::base::arena::Arena;
use crate::base::chain::Walk;
use crate::base::links::{Link, Links, List};
use crate::base::names::{NameCell, Names, ProviderName};
use crate::base::origin::Origin;
use crate::base::rights::Rights;

/// The number of the probe at an index of the table.
pub(crate) fn number(index: usize) -> u32 {
    index as u32 + 1
}

/// The index in the table of a probe with this number.
pub(crate) fn index(id: ProbeId) -> usize {
    id.get() as usize - 1
}

/// A pointer of the provider, which the framework passes back and never dereferences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opaque(pub(crate) *mut c_void);

// SAFETY: the framework never dereferences it, and the contract of `register` allows calling the ops with it from any thread.
unsafe impl Send for Opaque {}

#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: &'static ProviderName,
    pub(crate) attr: ProviderAttr,
    pub(crate) privileges: Privileges,
    pub(crate) ops: ProviderOps,
    pub(crate) arg: Opaque,
    /// Invalidated: no description matches its probes.
    pub(super) defunct: bool,
    pub(super) probes: List,
    /// The number of its enabled probes.
    enabled: usize,
}

/// An entry of the table of providers.
#[derive(Debug)]
pub(super) struct ProviderEntry {
    /// The number of providers that used this entry: part of the id, so that no id is used twice.
    generation: usize,
    pub(super) provider: Option<Provider>,
}

#[derive(Debug)]
pub(crate) struct Probe {
    /// Index of its provider.
    pub(crate) provider: usize,
    /// The number of enablings on its chain.
    enablings: usize,
    /// The number of probes that were created before it.
    pub(crate) created: usize,
    /// Whether the probe was enabled for all retained enablings that matched it when it was created.
    pub(crate) is_matched: bool,
    pub(crate) names: &'static Names,
    pub(crate) parg: Opaque,
}

/// Returns the largest sizes in bytes of the tables.
const fn table_bytes(providers: usize, probes: usize) -> [usize; 6] {
    [
        Arena::footprint::<ProviderEntry>(providers),
        Arena::footprint::<Option<Probe>>(probes),
        Arena::footprint::<NameCell<ProviderName>>(providers),
        Arena::footprint::<NameCell<Names>>(probes),
        // Links of the provider's list, and of the two indexes.
        Arena::footprint::<Link>(probes).saturating_mul(3),
        Arena::footprint::<List>(probes).saturating_mul(2),
    ]
}

/// All providers and probes, and the enablings `E` of each probe.
#[derive(Debug)]
pub(crate) struct Registry<E: 'static> {
    pub(super) providers: &'static mut [ProviderEntry],
    probes: &'static mut [Option<Probe>],
    /// The names of the provider in each entry of `providers`, readable in probe context.
    provider_names: &'static [NameCell<ProviderName>],
    names: &'static [NameCell<Names>],
    /// The number of entries of `probes` that were ever used.
    used: usize,
    /// Unused entries, the oldest first: an id is reused as late as possible, so that it rarely names another probe.
    free: List,
    /// Links of each provider's list of probes, and of `free`.
    pub(super) links: Links,
    pub(super) by_function: Index,
    pub(super) by_name: Index,
    /// The number of probes that were ever created.
    created: usize,
    live: Live<E>,
    /// The number of probes that were compared with descriptions or names.
    #[cfg(test)]
    pub(crate) compared: core::sync::atomic::AtomicUsize,
}

impl<E: Copy + 'static> Registry<E> {
    /// Creates a registry with empty tables.
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
            created: 0,
            live: Live::none(),
            #[cfg(test)]
            compared: core::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Creates a registry for these numbers; `None` if the memory does not suffice.
    pub(crate) fn new(
        arena: &mut Arena,
        providers: usize,
        probes: usize,
        enablings: usize,
    ) -> Option<Self> {
        let entry = |_| ProviderEntry { generation: 0, provider: None };
        Some(Self {
            providers: arena.slice(providers, entry)?.leak(),
            probes: arena.slice(probes, |_| None)?.leak(),
            provider_names: arena.slice(providers, |_| NameCell::new())?.leak(),
            names: arena.slice(probes, |_| NameCell::new())?.leak(),
            links: Links::new(arena, probes)?,
            by_function: Index::new(arena, probes)?,
            by_name: Index::new(arena, probes)?,
            live: Live::new(arena, probes, enablings)?,
            ..Self::none()
        })
    }

    /// Returns the largest number of bytes that a registry takes.
    pub(crate) const fn footprint(providers: usize, probes: usize, enablings: usize) -> usize {
        let tables = table_bytes(providers, probes);
        let (mut sum, mut at) = (Live::<E>::footprint(probes, enablings), 0);
        while at < tables.len() {
            sum = sum.saturating_add(tables[at]);
            at += 1;
        }
        sum
    }

    /// Returns the part that probe context reads.
    pub(crate) const fn live(&self) -> Live<E> {
        self.live
    }

    /// Returns the tables of the providers' names and of the probes' names.
    pub(crate) const fn name_tables(
        &self,
    ) -> (&'static [NameCell<ProviderName>], &'static [NameCell<Names>]) {
        (self.provider_names, self.names)
    }

    /// Returns the number of probes that were ever created.
    pub(crate) const fn created(&self) -> usize {
        self.created
    }

    /// Registers a provider that passed the [checks](super::registration::check). Returns its id, or `None` if the
    /// table is full.
    pub(crate) fn register(
        &mut self,
        name: ProviderName,
        attr: ProviderAttr,
        privileges: Privileges,
        ops: ProviderOps,
        arg: *mut c_void,
    ) -> Option<ProviderId> {
        let at = self.providers.iter().position(|entry| entry.provider.is_none())?;
        let entry = &mut self.providers[at];
        // SAFETY: the entry is free: `destroy` has destroyed the probes of its previous provider, and every CPU has
        // left probe context since they were live, so no reference to the old name is used.
        let name = unsafe { self.provider_names.get(at)?.fill(name) };
        let (defunct, probes, enabled, arg) = (false, List::EMPTY, 0, Opaque(arg));
        entry.provider =
            Some(Provider { name, attr, privileges, ops, arg, defunct, probes, enabled });
        let generation = entry.generation;
        Some(self.provider_id(generation, at))
    }

    /// Returns the id of the provider in the entry `at`, with this generation. Ids are never 0.
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
    fn provider(&self, at: usize) -> Option<&Provider> {
        self.providers.get(at)?.provider.as_ref()
    }

    fn provider_mut(&mut self, at: usize) -> Option<&mut Provider> {
        self.providers.get_mut(at)?.provider.as_mut()
    }

    /// Returns the greatest number of providers; 0 while there is no memory.
    pub(crate) fn max_providers(&self) -> usize {
        self.providers.len()
    }

    /// Returns the ops and the `arg` of the provider at an index, unless it was invalidated.
    pub(crate) fn ops(&self, at: usize) -> Option<(ProviderOps, Opaque)> {
        let provider = self.provider(at).filter(|provider| !provider.defunct)?;
        Some((provider.ops, provider.arg))
    }

    /// Invalidates a provider: from now on no description matches its probes.
    pub(crate) fn invalidate(&mut self, id: ProviderId) {
        if let Some(found) = self.find_provider(id).and_then(|at| self.provider_mut(at)) {
            found.defunct = true;
        }
    }

    /// Unregisters a provider, and destroys its probes.
    ///
    /// # Errors
    /// [`FrameworkError::NotFound`] if the provider is not registered. If it has enabled probes:
    /// [`FrameworkError::Again`] if it was invalidated, otherwise [`FrameworkError::Busy`]. [`FrameworkError::Busy`]
    /// also if a consumer `is_open` and the provider was not invalidated.
    pub(crate) fn unregister(
        &mut self,
        id: ProviderId,
        is_open: bool,
        sync: impl FnOnce(),
    ) -> Result<(), FrameworkError> {
        let at = self.find_provider(id).ok_or(FrameworkError::NotFound)?;
        let found = self.provider(at).ok_or(FrameworkError::NotFound)?;
        match found.defunct {
            true if found.enabled > 0 => return Err(FrameworkError::Again),
            false if found.enabled > 0 || is_open => return Err(FrameworkError::Busy),
            true | false => {}
        }
        self.destroy_of_provider(at, sync);
        if let Some(entry) = self.providers.get_mut(at) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.provider = None;
        }
        Ok(())
    }

    /// Returns the number of entries of the table of probes that were ever used.
    pub(crate) fn probes_used(&self) -> usize {
        self.used
    }

    /// The probe at an index, and its provider.
    pub(crate) fn probe(&self, at: usize) -> Option<(&Probe, &Provider)> {
        let probe = self.probes.get(at)?.as_ref()?;
        Some((probe, self.provider(probe.provider)?))
    }

    /// Like [`probe`](Self::probe), mutable.
    fn probe_mut(&mut self, at: usize) -> Option<(&mut Probe, &mut Provider)> {
        let probe = self.probes.get_mut(at)?.as_mut()?;
        let provider = self.providers.get_mut(probe.provider)?.provider.as_mut()?;
        Some((probe, provider))
    }

    /// Returns the index of the probe of a registered provider with exactly these names. Returns `None` for an
    /// invalidated provider.
    pub(crate) fn lookup(&self, provider: ProviderId, names: [&CStr; 3]) -> Option<usize> {
        let at = self.find_provider(provider)?;
        if self.provider(at)?.defunct {
            return None;
        }
        self.find_probe(at, names.map(CStr::to_bytes))
    }

    /// Creates a probe and returns its index.
    ///
    /// # Errors
    /// [`FrameworkError::NotFound`], [`FrameworkError::Full`]; [`FrameworkError::Invalid`] for a name that is too long.
    pub(crate) fn create(
        &mut self,
        provider: ProviderId,
        names: [&CStr; 3],
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<usize, FrameworkError> {
        if self.max_providers() == 0 {
            return Err(FrameworkError::NotReady);
        }
        let provider = self.find_provider(provider).ok_or(FrameworkError::NotFound)?;
        let names = Names::new(names.map(CStr::to_bytes)).ok_or(FrameworkError::Invalid)?;
        let at = self.add_probe(provider, names, Opaque(parg)).ok_or(FrameworkError::Full)?;
        let (probe, provider) = self.probe(at).ok_or(FrameworkError::NotFound)?;
        let names = (provider.name, probe.names);
        let origin = Origin::new(&provider.ops, provider.arg.0, parg, aframes, Some(names));
        if let Some(live) = self.live.at(at) {
            // SAFETY: the entry was free: a new one, or one that `destroy` freed after it waited.
            unsafe { live.publish(origin) };
        }
        Ok(at)
    }

    /// Puts a probe of a registered provider into the table and returns its index.
    fn add_probe(&mut self, provider_at: usize, names: Names, parg: Opaque) -> Option<usize> {
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
        let (enablings, is_matched) = (0, false);
        let probe = Probe { provider: provider_at, enablings, created, is_matched, names, parg };
        self.probes[at] = Some(probe);
        Some(at)
    }

    /// Frees the entry of a probe that is not enabled.
    fn remove_probe(&mut self, at: usize) {
        let Some(probe) = self.probes.get_mut(at).and_then(Option::take) else { return };
        self.by_function.remove(probe.names.function.to_bytes(), at);
        self.by_name.remove(probe.names.name.to_bytes(), at);
        let provider = self.providers.get_mut(probe.provider);
        if let Some(provider) = provider.and_then(|entry| entry.provider.as_mut()) {
            self.links.remove(&mut provider.probes, at);
        }
        self.links.push(&mut self.free, at);
    }

    /// Marks a probe as matched. Returns the number of probes that were created before it; `None` if it was matched before.
    pub(crate) fn match_once(&mut self, at: usize) -> Option<usize> {
        let (probe, _) = self.probe_mut(at).filter(|(probe, _)| !probe.is_matched)?;
        probe.is_matched = true;
        Some(probe.created)
    }

    /// Returns whether consumers with these rights may use the probe at an index.
    pub(crate) fn permits(&self, at: usize, rights: Rights) -> bool {
        self.probe(at).is_some_and(|(_, provider)| rights.may_use(provider.privileges))
    }

    /// Returns the part of a probe that probe context reads.
    pub(crate) fn live_probe(&self, at: usize) -> Option<&'static LiveProbe> {
        self.live.at(at)
    }

    /// The enablings of a probe.
    pub(crate) fn enablings(&self, at: usize) -> impl Iterator<Item = E> + use<E> {
        let live = self.live;
        let walk = live.at(at).map(|probe| probe.chain().walk(live.nodes()));
        walk.into_iter().flat_map(|walk: Walk<'static, E>| walk.map(|(_, enabling)| enabling))
    }

    /// Adds an enabling to the end of a probe's chain. Call [`note_enabled`](Self::note_enabled) afterwards, if the
    /// provider must be notified.
    ///
    /// # Safety
    /// The node is on no chain, and no CPU that found it on one is still in probe context.
    pub(crate) unsafe fn append(&mut self, at: usize, node: usize, enabling: E) {
        // SAFETY: the node is on no chain, by the contract of this function; the lock of the framework protects the registry.
        unsafe { self.live.append(at, node, enabling) };
    }

    /// Counts one more enabling of a probe, and calls the op `enable` for the first one.
    pub(crate) fn note_enabled(&mut self, at: usize) {
        let Some((probe, provider)) = self.probe_mut(at) else { return };
        probe.enablings += 1;
        if probe.enablings == 1 {
            provider.enabled += 1;
            if let Some(enable) = provider.ops.enable {
                // SAFETY: the contract of `register` allows calling the op with these pointers until the provider is
                // unregistered.
                unsafe { enable(provider.arg.0, number(at), probe.parg.0) };
            }
        }
    }

    /// Removes an enabling from a probe's chain. CPUs in probe context may still use it.
    pub(crate) fn unlink(&mut self, at: usize, node: usize) {
        // SAFETY: the caller has exclusive access to the registry, so it holds the framework's lock.
        unsafe { self.live.unlink(at, node) };
    }

    /// Counts one enabling less of a probe, and calls the op `disable` for the last one.
    pub(crate) fn note_disabled(&mut self, at: usize) {
        let Some((probe, provider)) = self.probe_mut(at) else { return };
        probe.enablings -= 1;
        if probe.enablings == 0 {
            provider.enabled -= 1;
            if let Some(disable) = provider.ops.disable {
                // SAFETY: the contract of `register` allows calling the op with these pointers until the provider is
                // unregistered.
                unsafe { disable(provider.arg.0, number(at), probe.parg.0) };
            }
        }
    }

    /// Destroys the probes of a provider, by index, that are not enabled; returns how many there were.
    pub(crate) fn destroy_of_provider(&mut self, provider: usize, sync: impl FnOnce()) -> usize {
        self.destroy_matching(provider, |_| true, sync)
    }

    /// Destroys those probes of a provider that are not enabled and whose `parg` matches; returns how many there were.
    pub(crate) fn destroy_some(
        &mut self,
        provider: ProviderId,
        which: impl Fn(*mut c_void) -> bool,
        sync: impl FnOnce(),
    ) -> usize {
        let Some(at) = self.find_provider(provider) else { return 0 };
        self.destroy_matching(at, |probe| which(probe.parg.0), sync)
    }

    fn destroy_matching(
        &mut self,
        provider: usize,
        which: impl Fn(&Probe) -> bool,
        sync: impl FnOnce(),
    ) -> usize {
        self.destroy(sync, |this, after| {
            let mut at = match after {
                Some(at) => this.links.next(at),
                None => this.provider(provider)?.probes.first(),
            };
            while let Some(other) = at {
                let probe = this.probe(other)?.0;
                if probe.enablings == 0 && which(probe) {
                    break;
                }
                at = this.links.next(other);
            }
            at
        })
    }

    /// Destroys all probes with this name in their module field; returns how many there were.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] when one of them is enabled.
    pub(crate) fn destroy_module(
        &mut self,
        module: &CStr,
        sync: impl FnOnce(),
    ) -> Result<usize, FrameworkError> {
        let next = |this: &Self, from: usize| {
            (from..this.used).find(|&at| {
                this.probe(at).is_some_and(|(probe, _)| probe.names.module == *module.to_bytes())
            })
        };
        let is_enabled = |at: &usize| self.probe(*at).is_some_and(|(probe, _)| probe.enablings > 0);
        if core::iter::successors(next(self, 0), |at| next(self, at + 1)).any(|at| is_enabled(&at))
        {
            return Err(FrameworkError::Busy);
        }
        Ok(self.destroy(sync, |this, after| next(this, after.map_or(0, |at| at + 1))))
    }

    /// Destroys a probe unless it is enabled; returns whether it was destroyed.
    pub(crate) fn destroy_unless_enabled(&mut self, id: ProbeId, sync: impl FnOnce()) -> bool {
        let at = index(id);
        let destroyed = self.destroy(sync, |this, after| {
            let is_enabled = this.probe(at)?.0.enablings > 0;
            (after.is_none() && !is_enabled).then_some(at)
        });
        destroyed > 0
    }

    /// Destroys the probes that `next` returns, each computed from the previous one. None of them may be enabled. Makes
    /// their ids invalid, calls `sync`, which waits until every CPU has left probe context, calls the provider's op
    /// `destroy` for each, and frees the entries. Returns the number of probes.
    fn destroy(
        &mut self,
        sync: impl FnOnce(),
        next: impl Fn(&Self, Option<usize>) -> Option<usize>,
    ) -> usize {
        let mut count = 0;
        let mut at = next(self, None);
        while let Some(index) = at {
            if let Some(live) = self.live.at(index) {
                live.retract();
            }
            count += 1;
            at = next(self, at);
        }
        if count == 0 {
            return 0;
        }
        sync();
        let mut at = next(self, None);
        while let Some(index) = at {
            at = next(self, at);
            if let Some((probe, provider)) = self.probe(index)
                && let Some(destroy) = provider.ops.destroy
            {
                // SAFETY: the contract of `register` allows calling the op with these pointers until the provider is
                // unregistered; `sync` above has waited for every CPU that used the id.
                unsafe { destroy(provider.arg.0, number(index), probe.parg.0) };
            }
            self.remove_probe(index);
        }
        count
    }
}
