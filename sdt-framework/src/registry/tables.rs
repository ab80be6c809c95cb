//! Providers and probes, without the data that probe context reads. The framework's lock protects all of it.
//!
//! The cost of an operation does not depend on the number of probes, except for a [search](super::search) through the
//! probes that a description may match.

use core::ffi::{CStr, c_void};

use sdt_core::ops::{FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderId, ProviderOps};

use super::live::{Live, LiveProbe, MAX_PROVIDERS};
use crate::base::arena::Arena;
use crate::base::chain::Walk;
use crate::base::growing::Growing;
use crate::base::links::{Link, Links, List};
use crate::base::names::{self, NameRef, NameStore, Part, ProviderName};
use crate::base::origin::{Fixed, Source};
use crate::base::rights::Rights;

/// The number of the probe at an index of the table.
pub(crate) fn number(index: usize) -> u32 {
    index as u32 + 1
}

/// The index in the table of a probe with this number.
pub(crate) fn index(id: ProbeId) -> usize {
    id.get() as usize - 1
}

#[derive(Debug)]
pub(crate) struct Provider {
    /// Its name, ops and `arg`.
    pub(crate) source: &'static Source,
    pub(crate) attr: ProviderAttr,
    pub(crate) privileges: Privileges,
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

/// A probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Index of its provider.
    pub(crate) provider: usize,
    /// The number of probes that were created before it.
    pub(crate) created: usize,
    /// Module, function and name.
    pub(super) names: [NameRef; 3],
    pub(crate) parg: *mut c_void,
}

/// All providers and probes, and the enablings `E` of each probe.
#[derive(Debug)]
pub(crate) struct Registry<E: 'static> {
    pub(super) providers: &'static mut [ProviderEntry],
    /// The number of probes that were created before each probe.
    created_before: Growing<usize>,
    pub(super) names: NameStore,
    /// Unused entries, the oldest first: an id is reused as late as possible, so that it rarely names another probe.
    free: List,
    /// Links of each provider's list of probes, and of `free`.
    pub(super) links: Links,
    /// Links of the probes that have the same function, and of those that have the same name.
    pub(super) by_function: Links,
    pub(super) by_name: Links,
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
            created_before: Growing::none(),
            names: NameStore::none(),
            free: List::EMPTY,
            links: Links::none(),
            by_function: Links::none(),
            by_name: Links::none(),
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
        if providers > MAX_PROVIDERS {
            return None;
        }
        let entry = |_| ProviderEntry { generation: 0, provider: None };
        let names = NameStore::new(arena, probes)?;
        Some(Self {
            providers: arena.slice(providers, entry)?.leak(),
            created_before: Growing::new(arena, probes)?,
            links: Links::new(arena, probes)?,
            by_function: Links::new(arena, probes)?,
            by_name: Links::new(arena, probes)?,
            live: Live::new(arena, (providers, probes, enablings), names.table())?,
            names,
            ..Self::none()
        })
    }

    /// Returns the largest number of bytes that a registry takes.
    pub(crate) const fn footprint(providers: usize, probes: usize, enablings: usize) -> usize {
        Live::<E>::footprint(providers, probes, enablings)
            .saturating_add(NameStore::footprint(probes))
            .saturating_add(Arena::footprint::<ProviderEntry>(providers))
            .saturating_add(Arena::footprint::<usize>(probes))
            // Links of the provider's list, and of those by function and by name.
            .saturating_add(Arena::footprint::<Link>(probes).saturating_mul(3))
    }

    /// Returns the part that probe context reads.
    pub(crate) const fn live(&self) -> Live<E> {
        self.live
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
        // left probe context since they were live, so no reference to its data is used.
        let source = unsafe { self.live.providers().get(at)?.fill(Source::new(name, ops, arg)) };
        let (defunct, probes, enabled) = (false, List::EMPTY, 0);
        entry.provider = Some(Provider { source, attr, privileges, defunct, probes, enabled });
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
    pub(crate) fn ops(&self, at: usize) -> Option<(ProviderOps, *mut c_void)> {
        let provider = self.provider(at).filter(|provider| !provider.defunct)?;
        Some((provider.source.ops, provider.source.arg))
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
        arena: &mut Arena,
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
        self.destroy_of_provider(arena, at, sync);
        if let Some(entry) = self.providers.get_mut(at) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.provider = None;
        }
        Ok(())
    }

    /// Returns the number of entries of the table of probes that were ever used.
    pub(crate) fn probes_used(&self) -> usize {
        self.created_before.len()
    }

    /// The probe at an index, and its provider.
    pub(crate) fn probe(&self, at: usize) -> Option<(Probe, &Provider)> {
        let live = self.live.at(at)?;
        let provider = live.provider()?;
        // SAFETY: there is a probe, and the registry is behind the framework's lock.
        let Fixed { parg, names, .. } = *unsafe { live.fixed() };
        let created = *self.created_before.get(at)?;
        Some((Probe { provider, created, names, parg }, self.provider(provider)?))
    }

    /// Returns module, function and name of a probe.
    pub(super) fn texts(&self, probe: &Probe) -> [&[u8]; 3] {
        probe.names.map(|name| self.names.text(name))
    }

    fn is_enabled(&self, at: usize) -> bool {
        self.live.at(at).is_some_and(LiveProbe::is_enabled)
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

    /// Creates a probe and returns its index. Its names take memory of the arena if the registry has no room for them.
    ///
    /// # Errors
    /// [`FrameworkError::NotFound`], [`FrameworkError::Full`]; [`FrameworkError::Invalid`] for a name that is too long.
    pub(crate) fn create(
        &mut self,
        arena: &mut Arena,
        provider: ProviderId,
        names: [&CStr; 3],
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<usize, FrameworkError> {
        if self.max_providers() == 0 {
            return Err(FrameworkError::NotReady);
        }
        let provider = self.find_provider(provider).ok_or(FrameworkError::NotFound)?;
        let names = names::checked(names).ok_or(FrameworkError::Invalid)?;
        if self.probes_used() == self.created_before.capacity() && self.free.len() == 0 {
            return Err(FrameworkError::Full);
        }
        let names = self.add_names(arena, names).ok_or(FrameworkError::Full)?;
        self.add_probe(provider, Fixed { parg, aframes, names }).ok_or(FrameworkError::Full)
    }

    /// Stores the names of a probe; `None` if there is no room.
    fn add_names(&mut self, arena: &mut Arena, texts: [&[u8]; 3]) -> Option<[NameRef; 3]> {
        let mut added = [None; 3];
        for ((part, text), added) in Part::ALL.into_iter().zip(texts).zip(&mut added) {
            *added = self.names.intern(arena, part, text);
        }
        if let [Some(module), Some(function), Some(name)] = added {
            return Some([module, function, name]);
        }
        self.remove_names(arena, added);
        None
    }

    /// Removes those names that no probe has.
    fn remove_names(&mut self, arena: &mut Arena, names: [Option<NameRef>; 3]) {
        for (part, name) in Part::ALL.into_iter().zip(names) {
            if let Some(name) = name {
                self.names.remove_unused(arena, part, name);
            }
        }
    }

    /// Runs `change` with the list of the probes that have a name.
    fn change_uses(&mut self, name: NameRef, change: impl FnOnce(&mut Self, &mut List)) {
        let mut uses = self.names.uses(name);
        change(self, &mut uses);
        self.names.set_uses(name, uses);
    }

    /// Puts a probe of a registered provider into the table and returns its index.
    fn add_probe(&mut self, provider_at: usize, fixed: Fixed) -> Option<usize> {
        let provider = self.providers.get_mut(provider_at)?.provider.as_mut()?;
        let used = self.created_before.len();
        let at = if used == self.created_before.capacity() {
            self.links.pop(&mut self.free)?
        } else {
            self.created_before.grow_to(used, 0);
            used
        };
        self.links.push(&mut provider.probes, at);
        self.created_before[at] = self.created;
        self.created += 1;
        let [module, function, name] = fixed.names;
        self.change_uses(module, |_, uses| uses.count_in());
        self.change_uses(function, |this, uses| this.by_function.push(uses, at));
        self.change_uses(name, |this, uses| this.by_name.push(uses, at));
        // SAFETY: the entry is free: a new one, or one whose probe was destroyed after every CPU had left probe context.
        unsafe { self.live.at(at)?.publish(provider_at, fixed) };
        Some(at)
    }

    /// Frees the entry of a probe that is not enabled and was retracted. Every CPU has left probe context since.
    fn remove_probe(&mut self, arena: &mut Arena, at: usize) {
        let Some((probe, _)) = self.probe(at) else { return };
        if let Some(live) = self.live.at(at) {
            live.free();
        }
        let [module, function, name] = probe.names;
        self.change_uses(module, |_, uses| uses.count_out());
        self.change_uses(function, |this, uses| this.by_function.remove(uses, at));
        self.change_uses(name, |this, uses| this.by_name.remove(uses, at));
        self.remove_names(arena, probe.names.map(Some));
        let provider = self.providers.get_mut(probe.provider);
        if let Some(provider) = provider.and_then(|entry| entry.provider.as_mut()) {
            self.links.remove(&mut provider.probes, at);
        }
        self.links.push(&mut self.free, at);
    }

    /// Marks a probe as matched. Returns the number of probes that were created before it; `None` if it was matched before.
    pub(crate) fn match_once(&mut self, at: usize) -> Option<usize> {
        let (probe, _) = self.probe(at)?;
        self.live.at(at)?.match_once().then_some(probe.created)
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

    /// Calls the op `enable` of a probe, if it has its first enabling since [`append`](Self::append).
    pub(crate) fn note_enabled(&mut self, at: usize) {
        let Some((probe, _)) = self.probe(at).filter(|_| self.enablings(at).take(2).count() == 1)
        else {
            return;
        };
        let Some(provider) = self.provider_mut(probe.provider) else { return };
        provider.enabled += 1;
        let Source { ops, arg, .. } = *provider.source;
        if let Some(enable) = ops.enable {
            // SAFETY: the contract of `register` allows calling the op with these pointers until the provider is
            // unregistered.
            unsafe { enable(arg, number(at), probe.parg) };
        }
    }

    /// Removes an enabling from a probe's chain. CPUs in probe context may still use it.
    pub(crate) fn unlink(&mut self, at: usize, node: usize) {
        // SAFETY: the caller has exclusive access to the registry, so it holds the framework's lock.
        unsafe { self.live.unlink(at, node) };
    }

    /// Calls the op `disable` of a probe, if [`unlink`](Self::unlink) has removed its last enabling.
    pub(crate) fn note_disabled(&mut self, at: usize) {
        let Some((probe, _)) = self.probe(at).filter(|_| !self.is_enabled(at)) else { return };
        let Some(provider) = self.provider_mut(probe.provider) else { return };
        provider.enabled -= 1;
        let Source { ops, arg, .. } = *provider.source;
        if let Some(disable) = ops.disable {
            // SAFETY: the contract of `register` allows calling the op with these pointers until the provider is
            // unregistered.
            unsafe { disable(arg, number(at), probe.parg) };
        }
    }

    /// Destroys the probes of a provider, by index, that are not enabled; returns how many there were.
    pub(crate) fn destroy_of_provider(
        &mut self,
        arena: &mut Arena,
        provider: usize,
        sync: impl FnOnce(),
    ) -> usize {
        self.destroy_matching(arena, provider, |_| true, sync)
    }

    /// Destroys those probes of a provider that are not enabled and whose `parg` matches; returns how many there were.
    pub(crate) fn destroy_some(
        &mut self,
        arena: &mut Arena,
        provider: ProviderId,
        which: impl Fn(*mut c_void) -> bool,
        sync: impl FnOnce(),
    ) -> usize {
        let Some(at) = self.find_provider(provider) else { return 0 };
        self.destroy_matching(arena, at, |probe| which(probe.parg), sync)
    }

    fn destroy_matching(
        &mut self,
        arena: &mut Arena,
        provider: usize,
        which: impl Fn(&Probe) -> bool,
        sync: impl FnOnce(),
    ) -> usize {
        self.destroy(arena, sync, |this, after| {
            let mut at = match after {
                Some(at) => this.links.next(at),
                None => this.provider(provider)?.probes.first(),
            };
            while let Some(other) = at {
                let probe = this.probe(other)?.0;
                if !this.is_enabled(other) && which(&probe) {
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
        arena: &mut Arena,
        module: &CStr,
        sync: impl FnOnce(),
    ) -> Result<usize, FrameworkError> {
        let Some(module) = self.names.find(Part::Module, module.to_bytes()) else { return Ok(0) };
        let next = |this: &Self, from: usize| {
            (from..this.probes_used())
                .find(|&at| this.probe(at).is_some_and(|(probe, _)| probe.names[0] == module))
        };
        let all = core::iter::successors(next(self, 0), |at| next(self, at + 1));
        if all.into_iter().any(|at| self.is_enabled(at)) {
            return Err(FrameworkError::Busy);
        }
        Ok(self.destroy(arena, sync, |this, after| next(this, after.map_or(0, |at| at + 1))))
    }

    /// Destroys a probe unless it is enabled; returns whether it was destroyed.
    pub(crate) fn destroy_unless_enabled(
        &mut self,
        arena: &mut Arena,
        id: ProbeId,
        sync: impl FnOnce(),
    ) -> bool {
        let at = index(id);
        let destroyed = self.destroy(arena, sync, |this, after| {
            this.probe(at)?;
            (after.is_none() && !this.is_enabled(at)).then_some(at)
        });
        destroyed > 0
    }

    /// Destroys the probes that `next` returns, each computed from the previous one. None of them may be enabled. Makes
    /// their ids invalid, calls `sync`, which waits until every CPU has left probe context, calls the provider's op
    /// `destroy` for each, and frees the entries. Returns the number of probes.
    fn destroy(
        &mut self,
        arena: &mut Arena,
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
                && let Some(destroy) = provider.source.ops.destroy
            {
                // SAFETY: the contract of `register` allows calling the op with these pointers until the provider is
                // unregistered; `sync` above has waited for every CPU that used the id.
                unsafe { destroy(provider.source.arg, number(index), probe.parg) };
            }
            self.remove_probe(arena, index);
        }
        count
    }
}
