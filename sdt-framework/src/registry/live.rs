//! The parts of probes that a hit reads: origin and chain.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::base::arena::Arena;
use crate::base::chain::{Chain, Node};
use crate::base::origin::Origin;
use crate::base::sync::{AtomicU32, UnsafeCell};

/// The part of a probe that is read when it fires.
#[derive(Debug)]
pub(crate) struct LiveProbe {
    is_live: AtomicBool,
    chain: Chain,
    /// The number of the predicate of the only enabling, if that can be cached; otherwise 0 (`dtpr_predcache`).
    predicate: AtomicU32,
    /// The number of consumers that have enabled it.
    consumers: AtomicU32,
    origin: UnsafeCell<Origin>,
}

// SAFETY: `publish` writes the origin only while the probe is not live and no CPU reads it. The framework only passes
// the pointers in it back to the provider.
unsafe impl Sync for LiveProbe {}

impl LiveProbe {
    fn new() -> Self {
        Self {
            is_live: AtomicBool::new(false),
            chain: Chain::new(),
            predicate: AtomicU32::new(0),
            consumers: AtomicU32::new(0),
            origin: UnsafeCell::new(Origin::NONE),
        }
    }

    /// Publishes the probe: its id is valid from now on.
    ///
    /// # Safety
    /// The probe is not live, and every CPU has been outside probe context since it was retracted. The framework is locked.
    pub(super) unsafe fn publish(&self, origin: Origin) {
        // SAFETY: the probe is not live and every CPU has left probe context since, as `# Safety` requires, so no CPU reads it.
        self.origin.with_mut(|cell| unsafe { cell.write(origin) });
        self.is_live.store(true, Ordering::Release);
    }

    /// Ends the probe: its id is no longer valid.
    pub(super) fn retract(&self) {
        self.is_live.store(false, Ordering::Release);
    }

    /// Returns whether the probe is live. Probe context. Acquire, with the Release of `publish`: the origin is
    /// initialised.
    #[inline(always)]
    fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// Returns the provider's data of a probe that is live, or was live when this CPU entered probe context.
    ///
    /// # Safety
    /// The caller uses the result only in this probe context, or while the framework is locked.
    #[inline(always)]
    pub(crate) unsafe fn origin(&self) -> &Origin {
        // SAFETY: `publish` writes it only while the probe is not live and after every CPU has left probe context, and the caller
        // uses it only in this probe context or with the framework locked.
        self.origin.with(|origin| unsafe { &*origin })
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
        Self { probes: &[], nodes: &[] }
    }

    /// Allocates the tables; returns `None` if there is no room.
    pub(super) fn new(arena: &mut Arena, probes: usize, enablings: usize) -> Option<Self> {
        let probes = arena.slice(probes, |_| LiveProbe::new())?.leak();
        let nodes = arena.slice(enablings, |_| Node::new())?.leak();
        Some(Self { probes, nodes })
    }

    /// Returns the largest number of bytes that the tables take.
    pub(super) const fn footprint(probes: usize, enablings: usize) -> usize {
        Arena::footprint::<LiveProbe>(probes).saturating_add(Arena::footprint::<Node<E>>(enablings))
    }

    /// Returns the live probe with this number, if there is one. Probe context.
    #[inline(always)]
    pub(crate) fn find(&self, id: u32) -> Option<&'static LiveProbe> {
        self.probes.get(id.checked_sub(1)? as usize).filter(|probe| probe.is_live())
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
    pub(crate) fn for_each_enabled(&self, mut f: impl FnMut(u32, &Origin)) {
        for (id, probe) in (1..).zip(self.probes) {
            if !probe.chain.is_empty() && probe.is_live() {
                // SAFETY: this is probe context, the probe is live, and `f` gets a reference that it cannot keep.
                f(id, unsafe { probe.origin() });
            }
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
