//! A probe, as far as it is read when it fires.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::ecb::EcbNode;
use crate::ecb::chain::Chain;
use crate::registry::Origin;
use crate::sync::{AtomicU32, UnsafeCell};

/// The part of a probe that is read when it fires.
#[derive(Debug)]
pub(crate) struct LiveProbe {
    is_live: AtomicBool,
    pub(crate) chain: Chain,
    /// The number of the predicate of the only enabling, if it is one that can be cached; otherwise 0
    /// (`dtpr_predcache`).
    pub(crate) predicate: AtomicU32,
    /// How many consumers have enabled it.
    pub(crate) consumers: AtomicU32,
    origin: UnsafeCell<Origin>,
}

// SAFETY: the origin is written while the probe is not live and no CPU still looks at it; the pointers in
// it are the provider's and only handed back to it.
unsafe impl Sync for LiveProbe {}

impl LiveProbe {
    pub(crate) fn new() -> Self {
        Self {
            is_live: AtomicBool::new(false),
            chain: Chain::new(),
            predicate: AtomicU32::new(0),
            consumers: AtomicU32::new(0),
            origin: UnsafeCell::new(Origin::NONE),
        }
    }

    /// Makes the id a probe.
    ///
    /// # Safety
    /// It is not live, and since it is not every CPU has been outside probe context. The
    /// framework is locked.
    pub(crate) unsafe fn publish(&self, origin: Origin) {
        // SAFETY: nobody reads the origin of what is not live, by the contract above.
        self.origin.with_mut(|cell| unsafe { cell.write(origin) });
        self.is_live.store(true, Ordering::Release);
    }

    /// The probe goes away.
    pub(crate) fn retract(&self) {
        self.is_live.store(false, Ordering::Release);
    }

    /// Notes whether there is one enabling, with a predicate that can be cached. The framework is locked.
    pub(crate) fn cache_predicate(&self, ecbs: &[EcbNode]) {
        let (mut count, mut cache) = (0, 0);
        self.chain.for_each(ecbs, |_, ecb| {
            count += 1;
            // SAFETY: it is on the chain, and the framework locked.
            cache = unsafe { ecb.what.clause() }.map_or(0, |clause| clause.cache);
        });
        self.predicate.store(if count == 1 { cache } else { 0 }, Ordering::Relaxed);
    }

    /// Whether the id is a probe. Probe context. Acquire, with the Release of `publish`: the origin is there.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// The provider's part: of a probe that is live, or was when this CPU entered probe context, its own.
    ///
    /// # Safety
    /// It is used in this probe context only, or the framework is locked.
    pub(crate) unsafe fn origin(&self) -> &Origin {
        // SAFETY: nobody writes to it while it is live, nor before every CPU has left the probe context in which it was;
        // by the contract above nobody uses it longer.
        self.origin.with(|origin| unsafe { &*origin })
    }
}
