//! Enables and disables probes for consumers.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use dtrace_abi::spec::Spec;
use sdt_core::patch::batch;

use crate::base::host::Host;
use crate::base::rights::Rights;
use crate::control::error::ConsumerError;
use crate::control::pool::EcbUse;
use crate::control::retained::Retained;
use crate::control::tables::Tables;
use crate::control::{Control, find};
use crate::run::clause::Clause;
use crate::run::consumer::{Consumer, ConsumerId};
use crate::run::fire::Enabled;

/// A clause that is to be enabled.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The probes.
    pub(super) spec: &'a Spec,
    pub(super) clause: NonNull<Clause>,
    /// `Some` for a clause of a program: the number of the enabling of the program's first clause, or `None` for the
    /// first clause itself.
    pub(super) program: Option<Option<u32>>,
}

impl<H: Host> Control<H> {
    /// Enables a clause. Returns the number of probes, and the number of the enabling.
    pub(super) fn enable_wanted(
        &self,
        id: ConsumerId,
        wanted: &Wanted<'_>,
    ) -> Result<(u32, u32), ConsumerError> {
        let Wanted { spec, clause, program } = *wanted;
        let shared = self.shared()?;
        let rights = find(shared, id)?.1.rights();
        self.provide(&spec.desc());
        // Counted first, so that no provider is called for an enabling that fails.
        let mut needed = 0;
        self.for_each_match(spec, |tables, at| {
            needed += usize::from(tables.registry.permits(at, rights));
            Ok(())
        })?;
        let (enabling, since) = {
            let mut tables = self.tables.lock();
            let (consumer, _) = find(shared, id)?;
            let left = tables.ecbs.available();
            if needed > left {
                return Err(ConsumerError::TooManyEnablings { needed, left });
            }
            tables.enablings = tables.enablings.wrapping_add(1);
            let number = tables.enablings;
            let since = tables.registry.created();
            let spec = spec.clone();
            let program = program.map(|first| first.unwrap_or(number));
            let retained = Retained { consumer, number, since, program, spec, clause, next: None };
            let retained = tables.arena.alloc(retained);
            let retained = retained.ok_or_else(|| tables.no_memory(size_of::<Retained>()))?;
            tables.retain(retained);
            (number, since)
        };
        let mut enabled = 0;
        let mut add = |tables: &mut Tables, at| {
            let (consumer, _) = find(shared, id)?;
            // Probes that were created since then are enabled by `match_created`.
            let is_new = tables.registry.probe(at).is_some_and(|(probe, _)| probe.created >= since);
            if is_new || !tables.registry.permits(at, rights) {
                return Ok(());
            }
            if !self.add(tables, at, consumer, enabling, clause) {
                return Err(ConsumerError::TooManyEnablings { needed, left: enabled as usize });
            }
            enabled += 1;
            Ok(())
        };
        match self.in_batch(|| self.for_each_match(spec, &mut add)) {
            Ok(()) => Ok((enabled, enabling)),
            Err(error) => {
                // Other consumers have taken the last ECBs meanwhile.
                self.take_back(id, |number, _| number == enabling);
                Err(error)
            }
        }
    }

    /// Runs `change`, which enables or disables many probes, and then changes the text of all their sites together.
    fn in_batch<R>(&self, change: impl FnOnce() -> R) -> R {
        batch(|| self.functions.batch(change))
    }

    /// Removes those enablings of a consumer for which `which` returns true, by their number and clause. It keeps all
    /// others, because another thread may have enabled probes for the consumer meanwhile.
    pub(super) fn take_back(&self, id: ConsumerId, which: impl Fn(u32, NonNull<Clause>) -> bool) {
        let mut tables = self.tables.lock();
        if let Ok(shared) = self.shared()
            && let Ok((consumer, _)) = find(shared, id)
        {
            tables.forget(|kept| kept.consumer == consumer && which(kept.number, kept.clause));
            self.remove(&mut tables, consumer, |_, of| which(of.enabling, of.clause));
        }
    }

    /// Puts an ECB on a probe's chain; returns `false` if no ECB is left.
    pub(super) fn add(
        &self,
        tables: &mut Tables,
        probe: usize,
        consumer: usize,
        enabling: u32,
        clause: NonNull<Clause>,
    ) -> bool {
        let index = consumer as u32;
        let what = EcbUse { consumer: index, epid: 0, probe: probe as u32, enabling, clause };
        let Some((ecb, epid)) = tables.take_ecb(what) else { return false };
        let registry = &mut tables.registry;
        let has_others = registry.enablings(probe).any(|other| other.consumer == index);
        // SAFETY: `take_ecb` returns an ECB that is on no chain and that no CPU uses.
        unsafe { registry.append(probe, ecb, Enabled { consumer: index, epid, clause }) };
        if !has_others && let Some(live) = registry.live_probe(probe) {
            live.add_consumer();
        }
        cache_predicate(tables, probe);
        tables.registry.note_enabled(probe);
        true
    }

    /// Enables a probe that was just created for all retained enablings that match it, the latest first. While a thread
    /// [provides](Self::providing) probes, this is deferred to its end.
    pub(super) fn match_created(&self, tables: &mut Tables, at: usize) {
        if tables.providing > 0 {
            tables.fresh = Some(tables.fresh.map_or(at, |first| first.min(at)));
            return;
        }
        let Some(created) = tables.registry.match_once(at) else { return };
        let consumers = self.consumers();
        let rights = |index: usize| consumers.get(index).map_or(Rights::NONE, Consumer::rights);
        let retained = tables.retained.take();
        let mut next = retained.as_ref();
        while let Some(enabling) = next {
            next = enabling.next.as_ref();
            // If the probe existed before the enabling, `enable_wanted` has already enabled it.
            if enabling.since <= created
                && tables.registry.permits(at, rights(enabling.consumer))
                && tables.registry.matches(at, &enabling.spec)
                && !self.add(tables, at, enabling.consumer, enabling.number, enabling.clause)
            {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
        tables.retained = retained;
    }

    /// [`Dtrace::disable`](crate::Dtrace::disable).
    pub(crate) fn disable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        let mut tables = self.tables.lock();
        let (consumer, _) = find(self.shared()?, id)?;
        let is_all = *spec == Spec::ALL;
        tables.forget(|kept| kept.consumer == consumer && (is_all || kept.spec == *spec));
        let which =
            |tables: &Tables, what: EcbUse| tables.registry.matches(what.probe as usize, spec);
        Ok(self.remove(&mut tables, consumer, which))
    }

    /// Removes those enablings of a consumer, given by its index, for which `which` returns true. Returns the number of
    /// probes that the consumer no longer enables. When it returns, no CPU uses these enablings.
    pub(super) fn remove(
        &self,
        tables: &mut Tables,
        consumer: usize,
        which: impl Fn(&Tables, EcbUse) -> bool,
    ) -> u32 {
        let count = self.in_batch(|| unlink(tables, consumer, which));
        if tables.ecbs.has_retired() {
            self.hits.host.sync();
            tables.ecbs.reclaim();
        }
        count
    }
}

/// Unlinks enablings like [`Control::remove`], but does not wait: CPUs may still use them.
fn unlink(tables: &mut Tables, consumer: usize, which: impl Fn(&Tables, EcbUse) -> bool) -> u32 {
    let mut count = 0;
    let mut next = tables.ecbs.first_of(consumer);
    while let Some(ecb) = next {
        next = tables.ecbs.next(ecb);
        let Some(what) = tables.ecbs.used_for(ecb) else { continue };
        if !which(tables, what) {
            continue;
        }
        let probe = what.probe as usize;
        tables.registry.unlink(probe, ecb);
        cache_predicate(tables, probe);
        tables.ecbs.retire(consumer, ecb);
        if !tables.registry.enablings(probe).any(|other| other.consumer == what.consumer) {
            count += 1;
            if let Some(live) = tables.registry.live_probe(probe) {
                live.remove_consumer();
            }
        }
        tables.registry.note_disabled(probe);
    }
    count
}

/// Notes for probe context whether a probe has one enabling, with a predicate that can be cached.
fn cache_predicate(tables: &Tables, probe: usize) {
    let mut enablings = tables.registry.enablings(probe);
    let cache = match (enablings.next(), enablings.next()) {
        // SAFETY: the enabling is on the chain and the framework is locked, so its clause is not freed.
        (Some(only), None) => unsafe { only.clause.as_ref() }.cache,
        _ => 0,
    };
    if let Some(live) = tables.registry.live_probe(probe) {
        live.set_predicate(cache);
    }
}
