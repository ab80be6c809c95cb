//! Consumers enable probes, and disable them.

use core::sync::atomic::Ordering;

use dtrace_abi::spec::Spec;
use sdt_core::patch::batch;

use crate::buffer::{ConsumerError, ConsumerId, Recording};
use crate::dtrace::{Dtrace, Shared};
use crate::ecb::pool::EcbUse;
use crate::ecb::{Ecb, Retained, What};
use crate::host::Host;
use crate::registry::provider::number;
use crate::registry::tables::Tables;

/// What is to be enabled.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Which probes.
    pub(crate) spec: &'a Spec,
    /// What is done when they fire.
    pub(crate) what: What,
    /// Whether it is a clause of a program, and the number of the enabling by the first one of it if that is another
    /// one.
    pub(crate) program: Option<Option<usize>>,
}

/// # A consumer enables probes
///
/// Whose arguments are then recorded, to be [read](Self::read).
impl<H: Host> Dtrace<H> {
    /// Enables all probes that the description means, with all their arguments recorded:
    /// [`enable_recording`](Self::enable_recording) with [`Recording::DEFAULT`].
    ///
    /// # Errors
    /// As there.
    pub fn enable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.enable_recording(id, spec, Recording::DEFAULT)
    }

    /// Enables all probes that the description means and the consumer [may use](crate::Rights), and returns how many there are
    /// now; none is no error. The enabling is retained: a probe that is created later is enabled, too, until the consumer closes
    /// or [disables](Self::disable) them.
    ///
    /// Each call is an enabling of its own, as each clause of a D program is: a probe that one consumer
    /// enables twice makes two records. The provider's `enable` is called when a probe gets its first
    /// enabling of anyone; like FreeBSD's framework this one does not look at its result.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::TooManyEnablings`] and [`ConsumerError::NoMemory`], and nothing
    /// stays enabled.
    pub fn enable_recording(
        &self,
        id: ConsumerId,
        spec: &Spec,
        recording: Recording,
    ) -> Result<u32, ConsumerError> {
        let wanted = Wanted { spec, what: What::Args(recording), program: None };
        self.enable_wanted(id, &wanted).map(|(enabled, _)| enabled)
    }

    /// Enables what is wanted, and returns how many probes that are, and the number of the enabling.
    pub(crate) fn enable_wanted(
        &self,
        id: ConsumerId,
        wanted: &Wanted<'_>,
    ) -> Result<(u32, usize), ConsumerError> {
        self.need_thread()?;
        let Wanted { spec, what, program } = *wanted;
        let shared = self.shared()?;
        let rights = shared.consumer(id)?.1.rights();
        self.provide(&spec.desc())?;
        // Counted first, so that a provider does not see what comes to nothing.
        let mut needed = 0;
        self.for_each_match(spec, |tables, at| {
            needed += usize::from(tables.permits(at, rights));
            Ok(())
        })?;
        let (enabling, since) = {
            let mut tables = self.tables.lock();
            let (consumer, _) = shared.consumer(id)?;
            let left = tables.ecbs.available();
            if needed > left {
                return Err(ConsumerError::TooManyEnablings { needed, left });
            }
            tables.enablings = tables.enablings.wrapping_add(1);
            let number = tables.enablings;
            let since = tables.created;
            let spec = spec.clone();
            let program = program.map(|first| first.unwrap_or(number));
            let retained = Retained { consumer, number, since, program, spec, what, next: None };
            let left = tables.arena.left();
            let retained = tables
                .arena
                .alloc(retained)
                .ok_or(ConsumerError::NoMemory { needed: size_of::<Retained>(), left })?;
            tables.retain(retained);
            (number, since)
        };
        let mut enabled = 0;
        let mut add = |tables: &mut Tables, at| {
            let (consumer, _) = shared.consumer(id)?;
            // What was created since is enabled when it is matched.
            let is_new = tables.probe(at).is_some_and(|(probe, _)| probe.created >= since);
            if is_new || !tables.permits(at, rights) {
                return Ok(());
            }
            if !self.add(tables, at, consumer, enabling, what) {
                return Err(ConsumerError::TooManyEnablings { needed, left: enabled as usize });
            }
            enabled += 1;
            Ok(())
        };
        match batch(|| self.for_each_match(spec, &mut add)) {
            Ok(()) => Ok((enabled, enabling)),
            Err(error) => {
                // Others were faster.
                self.take_back(id, |number, _| number == enabling);
                Err(error)
            }
        }
    }

    /// Takes back those of a consumer's enablings that `which` means, by their number and what they do, and no others: another
    /// thread may have enabled something for the consumer meanwhile.
    pub(crate) fn take_back(&self, id: ConsumerId, which: impl Fn(usize, What) -> bool) {
        let mut tables = self.tables.lock();
        if let Ok(shared) = self.shared()
            && let Ok((consumer, _)) = shared.consumer(id)
        {
            tables.forget(|kept| kept.consumer == consumer && which(kept.number, kept.what));
            self.remove(&mut tables, consumer, |_, of| which(of.enabling, of.what));
        }
    }

    /// Puts an ECB on a probe's chain; `false` when none is left.
    pub(crate) fn add(
        &self,
        tables: &mut Tables,
        at: usize,
        consumer: usize,
        enabling: usize,
        what: What,
    ) -> bool {
        let Ok(shared) = self.shared() else { return false };
        let Some((ecb, epid)) = tables.take_ecb(consumer, at, enabling, what) else {
            return false;
        };
        let mut has_others = false;
        let chain = &shared.probes[at].chain;
        chain.for_each(shared.ecbs, |_, other| has_others |= other.consumer == consumer);
        // SAFETY: the pool hands out an ECB that is in no chain and that no CPU looks at.
        unsafe { shared.ecbs[ecb].fill(Ecb { consumer, epid, what }) };
        // SAFETY: it has just been filled, and the framework is locked.
        unsafe { chain.append(shared.ecbs, ecb) };
        if !has_others {
            shared.probes[at].consumers.fetch_add(1, Ordering::Relaxed);
        }
        shared.probes[at].cache_predicate(shared.ecbs);
        let Some((probe, provider)) = tables.probe_mut(at) else { return true };
        probe.ecbs += 1;
        if probe.ecbs == 1 {
            provider.enabled += 1;
            if let Some(enable) = provider.ops.enable {
                // SAFETY: the op was declared sound at registration.
                unsafe { enable(provider.arg.0, number(at), probe.parg.0) };
            }
        }
        true
    }

    /// Takes away all enablings that the consumer has on probes that the description matches, and
    /// returns how many probes that were. The provider's `disable` is called when a probe loses its last
    /// enabling of anyone. After the return no CPU is recording for them any more.
    ///
    /// Probes that are created later are not enabled any more by an enabling with this very description, nor by any if
    /// it is [`Spec::ALL`].
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn disable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.need_thread()?;
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (consumer, _) = shared.consumer(id)?;
        let is_all = *spec == Spec::ALL;
        tables.forget(|kept| kept.consumer == consumer && (is_all || kept.spec == *spec));
        Ok(self.remove(&mut tables, consumer, |tables, what| tables.matches(what.probe, spec)))
    }

    /// Removes those of a consumer's enablings, by index, that `which` means; returns on how many probes there
    /// were any. Afterwards no CPU looks at them.
    pub(crate) fn remove(
        &self,
        tables: &mut Tables,
        consumer: usize,
        which: impl Fn(&Tables, EcbUse) -> bool,
    ) -> u32 {
        let Ok(shared) = self.shared() else { return 0 };
        let count = batch(|| self.unlink(tables, shared, consumer, which));
        if tables.ecbs.has_retired() {
            self.host.sync();
            tables.ecbs.reclaim();
        }
        count
    }

    /// [`remove`](Self::remove), but that CPUs may still look at them.
    fn unlink(
        &self,
        tables: &mut Tables,
        shared: &Shared<H>,
        consumer: usize,
        which: impl Fn(&Tables, EcbUse) -> bool,
    ) -> u32 {
        let mut count = 0;
        let mut next = tables.ecbs.first_of(consumer);
        while let Some(ecb) = next {
            next = tables.ecbs.next(ecb);
            let Some(what) = tables.ecbs.used_for(ecb) else { continue };
            if !which(tables, what) {
                continue;
            }
            let chain = &shared.probes[what.probe].chain;
            // SAFETY: the framework is locked.
            unsafe { chain.unlink(shared.ecbs, ecb) };
            shared.probes[what.probe].cache_predicate(shared.ecbs);
            tables.retire_ecb(consumer, ecb);
            let mut more = false;
            chain.for_each(shared.ecbs, |_, other| more |= other.consumer == consumer);
            if !more {
                count += 1;
                shared.probes[what.probe].consumers.fetch_sub(1, Ordering::Relaxed);
            }
            let Some((probe, provider)) = tables.probe_mut(what.probe) else { continue };
            probe.ecbs -= 1;
            if probe.ecbs == 0 {
                provider.enabled -= 1;
                if let Some(disable) = provider.ops.disable {
                    // SAFETY: the op was declared sound at registration.
                    unsafe { disable(provider.arg.0, number(what.probe), probe.parg.0) };
                }
            }
        }
        count
    }
}
