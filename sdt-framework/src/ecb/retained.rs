//! Enablings are retained: a probe that is created later is enabled, too, by what means it already.

use core::sync::atomic::Ordering;

use dtrace_abi::spec::Spec;

use crate::arena::Owned;
use crate::buffer::Consumer;
use crate::dtrace::Dtrace;
use crate::ecb::What;
use crate::host::Host;
use crate::registry::tables::Tables;
use crate::rights::Rights;

/// One call of `enable`, for as long as it counts.
#[derive(Debug)]
pub(crate) struct Retained {
    /// Index of the consumer.
    pub(crate) consumer: usize,
    /// Which call it is.
    pub(crate) number: usize,
    /// How many probes were created before it.
    pub(crate) since: usize,
    /// Which program it is a clause of: the number of the first one.
    pub(crate) program: Option<usize>,
    /// Which probes it means.
    pub(crate) spec: Spec,
    /// What is done when they fire.
    pub(crate) what: What,
    /// The one before it.
    pub(crate) next: Option<Owned<Retained>>,
}

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

    /// Whether a consumer has enabled anything so that arguments are recorded.
    pub(crate) fn retains_arguments(&self, consumer: usize) -> bool {
        let first = self.retained.as_ref();
        core::iter::successors(first, |enabling| enabling.next.as_ref())
            .any(|enabling| enabling.consumer == consumer && matches!(enabling.what, What::Args(_)))
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

impl<H: Host> Dtrace<H> {
    /// Enables a probe that was just created for all that mean it, the latest first. As long as somebody is
    /// [providing](Self::providing) that has time.
    pub(crate) fn match_created(&self, tables: &mut Tables, at: usize) {
        if tables.providing > 0 {
            tables.fresh = Some(tables.fresh.map_or(at, |first| first.min(at)));
            return;
        }
        let created = match tables.probe_mut(at) {
            Some((probe, _)) if !probe.is_matched => {
                probe.is_matched = true;
                probe.created
            }
            _ => return,
        };
        let rights = |index: usize| {
            let consumers = self.shared().map_or(&[][..], |shared| shared.consumers);
            consumers.get(index).map_or(Rights::NONE, Consumer::rights)
        };
        let retained = tables.retained.take();
        let mut next = retained.as_ref();
        while let Some(enabling) = next {
            next = enabling.next.as_ref();
            // What was there before has been enabled with all the others that it means.
            if enabling.since <= created
                && tables.permits(at, rights(enabling.consumer))
                && tables.matches(at, &enabling.spec)
                && !self.add(tables, at, enabling.consumer, enabling.number, enabling.what)
            {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
        tables.retained = retained;
    }
}
