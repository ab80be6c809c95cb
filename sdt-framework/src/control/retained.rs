//! Retained enablings, which also enable probes that are created later.

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
    /// The number of the enabling.
    pub(crate) number: u32,
    /// The number of probes that were created before it.
    pub(crate) since: usize,
    /// The program of its clause: the number of the enabling of the program's first clause.
    pub(crate) program: Option<u32>,
    /// The description of its probes.
    pub(crate) spec: Spec,
    /// The clause that its probes run.
    pub(crate) clause: NonNull<Clause>,
    /// The next one of the list.
    pub(crate) next: Option<Owned<Retained>>,
}

// SAFETY: the clause never changes, and is freed only after its consumer has closed, which removes this.
unsafe impl Send for Retained {}

impl Tables {
    /// Retains an enabling. Clauses of one program keep their order; otherwise the latest enabling is first, as in DTrace.
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

    /// Removes the retained enablings that `which` selects.
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
        // The loop above has reversed the order.
        while let Some(mut enabling) = kept {
            kept = enabling.next.take();
            enabling.next = self.retained.take();
            self.retained = Some(enabling);
        }
    }
}
