//! The machine stands still for a debugger, the host is copied by a `fork`, or goes.

use core::fmt;

use lock_api::MutexGuard;

use crate::buffer::Activity;
use crate::context::ProbeContext;
use crate::counters::PerCpu;
use crate::dtrace::Dtrace;
use crate::host::Host;
use crate::registry::tables::Tables;
use crate::registry::{Notify, Origin};

/// Keeps out who would change which probes, enablings and consumers there are ([`Dtrace::try_hold`]).
#[must_use = "others are kept out until this is dropped"]
pub struct Held<'a, H: Host> {
    _registration: MutexGuard<'a, H::Lock, ()>,
    _tables: MutexGuard<'a, H::Lock, Tables>,
}

impl<H: Host> fmt::Debug for Held<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// # The machine stands still, the host is copied or goes
///
/// For kernels with a debugger, and for hosts that are processes.
impl<H: Host> Dtrace<H> {
    /// Calls the `suspend` op of every enabled probe (`dtrace_suspend`): a debugger is about to stop
    /// the machine. Takes no lock; other CPUs may be in any state.
    pub fn suspend(&self) {
        self.for_each_enabled(|origin| origin.suspend);
    }

    /// Calls the `resume` op of every enabled probe (`dtrace_resume`), after [`suspend`](Self::suspend).
    /// Takes no lock.
    pub fn resume(&self) {
        self.for_each_enabled(|origin| origin.resume);
    }

    fn for_each_enabled(&self, op: impl Fn(&Origin) -> Option<Notify>) {
        self.host.without_interrupts(|| {
            let here = self.shared().ok().and_then(|shared| shared.cpus.get(self.host.cpu()));
            let _in_probe = here.map(PerCpu::occupy);
            for (id, probe) in (1..).zip(self.shared().map_or(&[][..], |shared| shared.probes)) {
                if probe.chain.is_empty() {
                    continue;
                }
                // SAFETY: it is not used beyond this probe context.
                let origin = unsafe { probe.origin() };
                if probe.is_live()
                    && let Some(op) = op(origin)
                {
                    // SAFETY: as with `getargval`: the probe was live with interrupts off, so the provider
                    // is registered, and it declared the op sound to call here.
                    unsafe { op(origin.arg, id, origin.parg) };
                }
            }
        });
    }

    /// Locks everything that changes which probes, enablings and consumers there are, if nobody is changing it: for a host that
    /// is about to be copied, as the child of a `fork` is. `None` also in probe context.
    pub fn try_hold(&self) -> Option<Held<'_, H>> {
        self.need_thread().ok()?;
        let registration = self.registration.try_lock()?;
        Some(Held { _tables: self.tables.try_lock()?, _registration: registration })
    }

    /// Ends the runs of all consumers that have programs, as if these had asked for it (`exit`): for a host that is about to go.
    /// Nothing more is recorded for them. They see it by their [status](Self::status), and take what there is.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn wind_up(&self) -> Result<(), ProbeContext> {
        self.need_thread()?;
        let _tables = self.tables.lock();
        for consumer in self.shared().map_or(&[][..], |shared| shared.consumers) {
            consumer.turn_from(Activity::Active, Activity::Draining);
        }
        Ok(())
    }

    /// How many consumers there are whose programs have gone, and may have left something to take. Who is
    /// [not there yet](Self::enable_anonymously) is none.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn with_programs(&self) -> Result<usize, ProbeContext> {
        self.need_thread()?;
        let tables = self.tables.lock();
        let consumers = self.shared().map_or(&[][..], |shared| shared.consumers);
        Ok(consumers
            .iter()
            .filter(|consumer| consumer.is_open() && consumer.tracing().is_some())
            .filter(|consumer| tables.anonymous.is_none_or(|id| !consumer.is(id)))
            .count())
    }
}
