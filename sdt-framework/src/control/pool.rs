//! The pool of all ECBs, with the consumer of each. Protected by the framework's lock.

use core::ptr::NonNull;

use crate::base::arena::Arena;
use crate::base::growing::Growing;
use crate::base::links::{Links, List};
use crate::control::config::Config;
use crate::run::clause::Clause;

/// The pool of ECBs: free ones, used ones with their consumers, and unlinked ones that CPUs may still use.
#[derive(Debug)]
pub(crate) struct EcbPool {
    links: Links,
    free: List,
    retired: List,
    /// The used ECBs of each consumer.
    of: &'static mut [List],
    /// The use of each ECB.
    entries: Growing<EcbEntry>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct EcbEntry {
    used: Option<EcbUse>,
}

/// The use of an ECB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcbUse {
    /// Index of its consumer.
    pub(crate) consumer: u32,
    /// Number of the enabled probe. The numbers of a consumer increase from 1, and are not reused.
    pub(crate) epid: u32,
    /// Index of its probe.
    pub(crate) probe: u32,
    /// Number of the enabling that it belongs to.
    pub(crate) enabling: u32,
    /// Its clause, which exists as long as the consumer has ECBs.
    pub(crate) clause: NonNull<Clause>,
}

// SAFETY: the clause never changes, and exists as long as the consumer has ECBs (`Session::free`).
unsafe impl Send for EcbUse {}

impl EcbPool {
    pub(crate) const fn none() -> Self {
        Self {
            links: Links::none(),
            free: List::EMPTY,
            retired: List::EMPTY,
            of: &mut [],
            entries: Growing::none(),
        }
    }

    /// Allocates the pool; returns `None` if there is no room.
    pub(crate) fn new(arena: &mut Arena, config: &Config) -> Option<Self> {
        Some(Self {
            links: Links::new(arena, config.ecbs)?,
            of: arena.slice(config.consumers, |_| List::EMPTY)?.leak(),
            entries: Growing::new(arena, config.ecbs)?,
            ..Self::none()
        })
    }

    pub(crate) fn available(&self) -> usize {
        self.free.len() + (self.entries.capacity() - self.entries.len())
    }

    /// Allocates an ECB that no CPU can reach, for a consumer's enabled probe, and returns its index.
    pub(crate) fn take(&mut self, what: EcbUse) -> Option<usize> {
        let at = match self.links.pop(&mut self.free) {
            Some(at) => at,
            None => self.entries.len(),
        };
        self.entries.grow_to(at, EcbEntry { used: None });
        self.entries.get_mut(at)?.used = Some(what);
        self.links.push(&mut self.of[what.consumer as usize], at);
        Some(at)
    }

    /// Returns the enabled probe of a consumer with this number.
    pub(crate) fn find(&self, consumer: usize, epid: u32) -> Option<EcbUse> {
        let is = |at: usize| {
            let what = self.entries.get(at)?.used?;
            (what.consumer as usize == consumer && what.epid == epid).then_some(what)
        };
        // The ECBs of a consumer are usually adjacent.
        let first = self.first_of(consumer)?;
        let guess = first.checked_add(epid.checked_sub(self.used_for(first)?.epid)? as usize)?;
        is(guess).or_else(|| core::iter::successors(Some(first), |at| self.next(*at)).find_map(is))
    }

    /// Returns the first and oldest ECB of a consumer.
    pub(crate) fn first_of(&self, consumer: usize) -> Option<usize> {
        self.of[consumer].first()
    }

    /// Returns the next ECB of the same consumer.
    pub(crate) fn next(&self, at: usize) -> Option<usize> {
        self.links.next(at)
    }

    /// Returns the use of a consumer's ECB.
    pub(crate) fn used_for(&self, at: usize) -> Option<EcbUse> {
        self.entries[at].used
    }

    /// Retires an ECB of a consumer that was unlinked from its chain.
    pub(crate) fn retire(&mut self, consumer: usize, at: usize) {
        self.entries[at].used = None;
        self.links.remove(&mut self.of[consumer], at);
        self.links.push(&mut self.retired, at);
    }

    pub(crate) fn has_retired(&self) -> bool {
        self.retired.len() != 0
    }

    /// Frees the retired ECBs. Every CPU has been outside probe context since the last `retire`.
    pub(crate) fn reclaim(&mut self) {
        while let Some(at) = self.links.pop(&mut self.retired) {
            self.links.push(&mut self.free, at);
        }
    }
}
