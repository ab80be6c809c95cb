//! Enablings are retained: a probe that is created later is enabled, too, for the enablings that mean it.

use core::ptr::NonNull;

use dtrace_abi::spec::Spec;

use crate::base::arena::Owned;
use crate::control::tables::Tables;
use crate::run::clause::Clause;

/// An enabling, until its consumer closes or disables it.
#[derive(Debug)]
pub(crate) struct Retained {
    /// Index of the consumer.
    pub(crate) consumer: usize,
    /// Which enabling it is.
    pub(crate) number: usize,
    /// How many probes were created before it.
    pub(crate) since: usize,
    /// Which program it is a clause of: the number of the first one.
    pub(crate) program: Option<usize>,
    /// Which probes it means.
    pub(crate) spec: Spec,
    /// What is done when they fire.
    pub(crate) clause: NonNull<Clause>,
    /// The one before it.
    pub(crate) next: Option<Owned<Retained>>,
}

// SAFETY: the clause never changes, and is read while it is there.
unsafe impl Send for Retained {}

impl Tables {
    /// Keeps an enabling. Clauses of one program, which come one after the other, keep their order; otherwise the latest
    /// is first, as in DTrace.
    pub(crate) fn retain(&mut self, mut enabling: Owned<Retained>) {
        let is_of = |other: &Retained| other.program.is_some() && other.program == enabling.program;
        let all = core::iter::successors(self.retained.as_ref(), |other| other.next.as_ref());
        let before =
            (1..).zip(all).filter(|(_, other)| is_of(other)).map(|(count, _)| count).last();
        let mut link = &mut self.retained;
        for _ in 0..before.unwrap_or(0) {
            let Some(other) = link else { break };
            link = &mut other.next;
        }
        enabling.next = link.take();
        *link = Some(enabling);
    }

    /// Drops those retained enablings that `which` means.
    pub(crate) fn forget(&mut self, which: impl Fn(&Retained) -> bool) {
        let mut kept = None;
        let mut rest = self.retained.take();
        while let Some(mut enabling) = rest {
            rest = enabling.next.take();
            if which(&enabling) {
                self.arena.free(enabling);
            } else {
                enabling.next = kept;
                kept = Some(enabling);
            }
        }
        // They have come to be the other way round.
        while let Some(mut enabling) = kept {
            kept = enabling.next.take();
            enabling.next = self.retained.take();
            self.retained = Some(enabling);
        }
    }
}
