//! What is enabled before any consumer is there, and claimed by one later (`dtrace_anon`, dtrace.c).

use crate::buffer::{ConsumerError, ConsumerId};
use crate::context::ProbeContext;
use crate::dtrace::Dtrace;
use crate::host::Host;
use crate::rights::Rights;

/// # Tracing before there is a consumer
///
/// From boot on, for one that comes later (`dtrace -A`, `dtrace -a`).
impl<H: Host> Dtrace<H> {
    /// Enables a program in DOF and goes, for a consumer that will come: called at boot, after
    /// [`register_own`](Self::register_own) and before providers register, so that the first hit of their probes is traced.
    /// Options, as there are no others, are those in the DOF; with `bufpolicy` `ring` the latest is kept, otherwise the first. It is not
    /// given up for being silent. Returns how many enabled probes (ECBs) there are already.
    ///
    /// As with any open consumer, no provider can be unregistered until it was [claimed](Self::claim) and closed. Until then the host
    /// [cleans](Self::clean_anonymous) for it now and then.
    ///
    /// # Errors
    /// [`ConsumerError::Going`] if there is one that was not claimed; as [`open`](Self::open),
    /// [`enable_program`](Self::enable_program) and [`go`](Self::go).
    pub fn enable_anonymously(&self, dof: &[u8]) -> Result<u32, ConsumerError> {
        self.need_thread()?;
        if let Some(id) = self.tables.lock().anonymous {
            return Err(ConsumerError::Going(id));
        }
        let id = self.open()?;
        let result = self.enable_program(id, dof).and_then(|enabled| self.go(id).map(|()| enabled));
        if result.is_err() {
            self.close(id)?;
            return result;
        }
        let mut tables = self.tables.lock();
        if let Some(other) = tables.anonymous {
            // Another thread was faster.
            drop(tables);
            self.close(id)?;
            return Err(ConsumerError::Going(other));
        }
        let tracing = self.shared()?.consumer(id)?.1.tracing();
        if let Some(tracing) = tracing {
            tracing.alive.set(u64::MAX);
        }
        tables.anonymous = Some(id);
        result
    }

    /// Makes what programs of the consumer that has not come yet are done with usable again, their thread-local variables and elements
    /// of arrays above all, without which there is no room for others before long; says whether there is such a consumer. For a
    /// thread of the host that calls it now and then until somebody comes, who does it himself by asking for the
    /// [status](Self::status). (In DTrace the kernel does, `cleanrate` times a second.)
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn clean_anonymous(&self) -> Result<bool, ProbeContext> {
        self.need_thread()?;
        let tables = self.tables.lock();
        let Some(id) = tables.anonymous else { return Ok(false) };
        let found = self.shared().and_then(|shared| Ok(shared.consumer(id)?.1.tracing()));
        if let Ok(Some(tracing)) = found {
            // SAFETY: the framework is locked.
            unsafe { self.clean(tracing) };
        }
        Ok(true)
    }

    /// Closes the consumer for which something was enabled before it came, if it has not come yet: for a host that is about
    /// to go.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn close_anonymous(&self) -> Result<(), ProbeContext> {
        self.need_thread()?;
        let id = self.tables.lock().anonymous.take();
        // It is open, as nobody else has its number.
        if let Some(id) = id {
            let _ = self.close(id);
        }
        Ok(())
    }

    /// The consumer for which something was [enabled](Self::enable_anonymously) before it came, once. From here on it is as
    /// any other, and may do this much and no more: it is to ask for its [status](Self::status) now and then, and to be closed.
    /// What was recorded for it is the kernel's, so who may not [see that](Rights::kernel) has none. `None` also in
    /// [probe context](ProbeContext).
    pub fn claim(&self, rights: Rights) -> Option<ConsumerId> {
        if !rights.kernel() {
            return None;
        }
        self.need_thread().ok()?;
        let mut tables = self.tables.lock();
        let id = tables.anonymous.take()?;
        let consumer = self.shared().ok()?.consumer(id).ok()?.1;
        consumer.restrict(rights);
        let tracing = consumer.tracing();
        if let Some(tracing) = tracing {
            tracing.alive.set(self.host.timestamp());
        }
        Some(id)
    }
}
