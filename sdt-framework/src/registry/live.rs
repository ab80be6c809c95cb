//! The parts of probes that a hit reads: origin and chain.

use core::mem::{MaybeUninit, offset_of};

use crate::base::arena::Arena;
use crate::base::chain::{Chain, Node};
use crate::base::names::NameTable;
use crate::base::origin::{Fixed, Origin, ProbeState, SourceCell, Sources};
use crate::base::sync::{AtomicU32, Ordering, UnsafeCell};

/// The largest number of providers. [`ProbeState`] has no bits for more.
pub(crate) const MAX_PROVIDERS: usize = ProbeState::PROVIDER as usize - 1;

/// A probe. The layout is C's, because readers of dumps use it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LiveProbe {
    fixed: UnsafeCell<MaybeUninit<Fixed>>,
    /// Its [`ProbeState`].
    state: AtomicU32,
    chain: Chain,
    /// The number of the predicate of the only enabling, if that can be cached; otherwise 0 (`dtpr_predcache`).
    predicate: AtomicU32,
    /// The number of consumers that have enabled it.
    consumers: AtomicU32,
}

// SAFETY: `publish` writes `fixed` only while there is no probe and no CPU reads it. The framework only passes the pointer in it
// back to the provider.
unsafe impl Sync for LiveProbe {}
// SAFETY: as above: the contract of `register` allows calling the ops with the pointer from any thread.
unsafe impl Send for LiveProbe {}

impl LiveProbe {
    fn new() -> Self {
        Self {
            fixed: UnsafeCell::new(MaybeUninit::uninit()),
            state: AtomicU32::new(0),
            chain: Chain::new(),
            predicate: AtomicU32::new(0),
            consumers: AtomicU32::new(0),
        }
    }

    /// Publishes a probe of the provider at an index: its id is valid from now on.
    ///
    /// # Safety
    /// There is no probe, and every CPU has been outside probe context since it was retracted. The framework is locked.
    pub(super) unsafe fn publish(&self, provider: usize, fixed: Fixed) {
        // SAFETY: there is no probe and every CPU has left probe context since, as `# Safety` requires, so no CPU reads it.
        self.fixed.with_mut(|cell| unsafe { (*cell).write(fixed) });
        self.state.store((provider as u32 + 1) | ProbeState::LIVE, Ordering::Release);
    }

    /// Ends the probe: its id is no longer valid.
    pub(super) fn retract(&self) {
        self.state.fetch_and(!ProbeState::LIVE, Ordering::Release);
    }

    /// Frees the entry of a probe that was retracted. Called with the framework locked.
    pub(super) fn free(&self) {
        self.state.store(0, Ordering::Relaxed);
    }

    /// Notes that the probe was matched; returns whether it was not before. Called with the framework locked.
    pub(super) fn match_once(&self) -> bool {
        let matched = ProbeState::MATCHED;
        self.state.fetch_or(matched, Ordering::Relaxed) & matched == 0
    }

    /// Returns the index of the provider of the probe, if there is one, live or not. Called with the framework locked.
    pub(super) fn provider(&self) -> Option<usize> {
        ProbeState(self.state.load(Ordering::Relaxed)).provider()
    }

    /// Returns the state. Probe context. Acquire, with the Release of `publish`: if the probe is live, the other data are
    /// initialised.
    #[inline(always)]
    fn state(&self) -> ProbeState {
        ProbeState(self.state.load(Ordering::Acquire))
    }

    /// Returns whether the probe is enabled.
    pub(super) fn is_enabled(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Returns the data that do not change while there is a probe.
    ///
    /// # Safety
    /// There is a probe. It was live in this probe context, in which the result is used only, or the framework is locked.
    #[inline(always)]
    pub(super) unsafe fn fixed(&self) -> &Fixed {
        // SAFETY: `publish` has written it, and does so again only when there is no probe and after every CPU has left probe
        // context; the caller uses it only in this probe context or with the framework locked.
        self.fixed.with(|fixed| unsafe { (*fixed).assume_init_ref() })
    }

    /// Returns the number of the predicate that can be cached, or 0. Probe context.
    #[inline(always)]
    pub(crate) fn predicate(&self) -> u32 {
        self.predicate.load(Ordering::Relaxed)
    }

    /// Returns the number of consumers that have enabled it. Probe context.
    #[inline(always)]
    pub(crate) fn consumers(&self) -> &AtomicU32 {
        &self.consumers
    }

    /// Returns the chain of its enablings. Probe context.
    #[inline(always)]
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Sets the number of the predicate that can be cached; 0 for none. Called with the framework locked.
    pub(crate) fn set_predicate(&self, predicate: u32) {
        self.predicate.store(predicate, Ordering::Relaxed);
    }

    /// Counts one more consumer that has enabled the probe. Called with the framework locked.
    pub(crate) fn add_consumer(&self) {
        self.consumers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one consumer less that has enabled the probe. Called with the framework locked.
    pub(crate) fn remove_consumer(&self) {
        self.consumers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All probes that can fire, and the enablings `E` that are on their chains.
#[derive(Debug)]
pub(crate) struct Live<E: 'static> {
    probes: &'static [LiveProbe],
    sources: Sources,
    nodes: &'static [Node<E>],
}

impl<E: 'static> Clone for Live<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: 'static> Copy for Live<E> {}

impl<E: Copy + 'static> Live<E> {
    pub(super) const fn none() -> Self {
        let sources = Sources { providers: &[], names: NameTable::none() };
        Self { probes: &[], sources, nodes: &[] }
    }

    /// Allocates the tables, except the names; returns `None` if there is no room.
    pub(super) fn new(
        arena: &mut Arena,
        (providers, probes, enablings): (usize, usize, usize),
        names: NameTable,
    ) -> Option<Self> {
        let providers = arena.slice(providers, |_| SourceCell::new())?.leak();
        let sources = Sources { providers, names };
        let probes = arena.slice(probes, |_| LiveProbe::new())?.leak();
        let nodes = arena.slice(enablings, |_| Node::new())?.leak();
        Some(Self { probes, sources, nodes })
    }

    /// Returns the largest number of bytes that the tables take.
    pub(super) const fn footprint(providers: usize, probes: usize, enablings: usize) -> usize {
        Arena::footprint::<SourceCell>(providers)
            .saturating_add(Arena::footprint::<LiveProbe>(probes))
            .saturating_add(Arena::footprint::<Node<E>>(enablings))
    }

    /// Returns the live probe with this number, if there is one, and its origin. Probe context.
    ///
    /// # Safety
    /// The caller uses the origin in this probe context only.
    #[inline(always)]
    pub(crate) unsafe fn find(&self, id: u32) -> Option<(&'static LiveProbe, Origin<'_>)> {
        let probe = self.probes.get(id.checked_sub(1)? as usize)?;
        let state = probe.state();
        if !state.is_live() {
            return None;
        }
        // SAFETY: the probe is live, and the caller uses the result in this probe context only.
        Some((probe, unsafe { Origin::new(probe.fixed(), state, &self.sources) }))
    }

    /// Returns the table of providers.
    pub(super) const fn providers(&self) -> &'static [SourceCell] {
        self.sources.providers
    }

    pub(super) fn at(&self, index: usize) -> Option<&'static LiveProbe> {
        self.probes.get(index)
    }

    /// Returns the nodes of all chains. Probe context.
    #[inline(always)]
    pub(crate) const fn nodes(&self) -> &'static [Node<E>] {
        self.nodes
    }

    /// Calls `f` with the number and the origin of every probe that is enabled. Probe context.
    pub(crate) fn for_each_enabled(&self, mut f: impl FnMut(u32, Origin<'_>)) {
        for (id, probe) in (1..).zip(self.probes) {
            if probe.is_enabled()
                // SAFETY: this is probe context, and `f` gets an origin that it cannot keep.
                && let Some((_, origin)) = unsafe { self.find(id) }
            {
                f(id, origin);
            }
        }
    }

    /// Returns the place of the tables, for dumps.
    pub(crate) const fn layout(&self) -> Layout<E> {
        let names = offset_of!(LiveProbe, fixed) + offset_of!(Fixed, names);
        Layout {
            probes: self.probes,
            names,
            state: offset_of!(LiveProbe, state),
            chain: offset_of!(LiveProbe, chain),
            provider: ProbeState::PROVIDER,
            sources: self.sources,
            nodes: self.nodes,
        }
    }

    /// Puts an enabling at the end of a probe's chain.
    ///
    /// # Safety
    /// The node is on no chain, and no CPU that found it on one is still in probe context. The framework is locked.
    pub(super) unsafe fn append(&self, probe: usize, node: usize, enabling: E) {
        let (Some(probe), Some(place)) = (self.probes.get(probe), self.nodes.get(node)) else {
            return;
        };
        // SAFETY: no chain and no CPU refers to the node, by the contract of this function.
        unsafe { place.fill(enabling) };
        // SAFETY: the node is on no chain and was filled above, and the framework is locked, by the contract of this
        // function.
        unsafe { probe.chain.append(self.nodes, node) };
    }

    /// Removes an enabling from a probe's chain. CPUs in probe context may still use it.
    ///
    /// # Safety
    /// The framework is locked.
    pub(super) unsafe fn unlink(&self, probe: usize, node: usize) {
        if let Some(probe) = self.probes.get(probe) {
            // SAFETY: the framework is locked, by the contract of this function.
            unsafe { probe.chain.unlink(self.nodes, node) };
        }
    }
}

/// The place of the tables of [`Live`], and of the fields of their entries.
#[derive(Debug)]
pub(crate) struct Layout<E: 'static> {
    pub(crate) probes: &'static [LiveProbe],
    /// The offsets of fields of a probe.
    pub(crate) names: usize,
    pub(crate) state: usize,
    pub(crate) chain: usize,
    /// The bits of the state that have the number of the provider.
    pub(crate) provider: u32,
    pub(crate) sources: Sources,
    pub(crate) nodes: &'static [Node<E>],
}
