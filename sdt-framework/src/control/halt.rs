//! Functions for a debugger that stops the machine, and for a `fork` or the end of a host process.

use core::fmt;

use lock_api::MutexGuard;

use crate::base::counters::PerCpu;
use crate::base::host::Host;
use crate::base::origin::{Notify, Source};
use crate::control::Control;
use crate::control::tables::Tables;
use crate::run::consumer::Activity;

/// A guard that prevents changes of probes, enablings and consumers until it is dropped
/// ([`Dtrace::try_hold`](crate::Dtrace::try_hold)).
#[must_use = "dropping this lets other threads change the framework again"]
pub struct Held<'a, H: Host> {
    _registration: MutexGuard<'a, H::Lock, ()>,
    _tables: MutexGuard<'a, H::Lock, Tables>,
}

impl<H: Host> fmt::Debug for Held<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl<H: Host> Control<H> {
    /// [`Dtrace::suspend`](crate::Dtrace::suspend).
    pub(crate) fn suspend(&self) {
        self.for_each_enabled(|source| source.ops.suspend);
    }

    /// [`Dtrace::resume`](crate::Dtrace::resume).
    pub(crate) fn resume(&self) {
        self.for_each_enabled(|source| source.ops.resume);
    }

    fn for_each_enabled(&self, op: impl Fn(&Source) -> Option<Notify>) {
        let Some((shared, live)) = self.hits.memory.get() else { return };
        self.hits.host.without_interrupts(|| {
            let _in_probe = shared.cpus.get(self.hits.host.cpu()).map(PerCpu::occupy);
            live.for_each_enabled(|id, origin| {
                if let Some(source) = origin.source()
                    && let Some(op) = op(source)
                {
                    // SAFETY: the probe was live with interrupts off, so its provider is registered; the contract of
                    // `register` allows calling the op in probe context.
                    unsafe { op(source.arg, id, origin.parg()) };
                }
            });
        });
    }

    /// [`Dtrace::try_hold`](crate::Dtrace::try_hold).
    pub(crate) fn try_hold(&self) -> Option<Held<'_, H>> {
        let registration = self.registration.try_lock()?;
        Some(Held { _tables: self.tables.try_lock()?, _registration: registration })
    }

    /// [`Dtrace::end_runs`](crate::Dtrace::end_runs).
    pub(crate) fn end_runs(&self) {
        let _tables = self.tables.lock();
        for consumer in self.consumers() {
            consumer.change_activity(Activity::Active, Activity::Draining);
        }
    }

    /// [`Dtrace::started_consumers`](crate::Dtrace::started_consumers).
    pub(crate) fn started_consumers(&self) -> usize {
        let tables = self.tables.lock();
        self.consumers()
            .iter()
            .filter(|consumer| consumer.is_open() && consumer.state().is_some())
            .filter(|consumer| tables.anonymous.is_none_or(|id| !consumer.is(id)))
            .count()
    }
}
