//! The anonymous enabling: probes that are enabled before a consumer connects, and that a consumer claims later
//! (`dtrace_anon`, dtrace.c).

use crate::base::host::Host;
use crate::base::rights::Rights;
use crate::control::error::ConsumerError;
use crate::control::{Control, find};
use crate::run::consumer::ConsumerId;

impl<H: Host> Control<H> {
    /// [`Dtrace::enable_anonymously`](crate::Dtrace::enable_anonymously).
    pub(crate) fn enable_anonymously(&self, dof: &[u8]) -> Result<u32, ConsumerError> {
        if let Some(id) = self.tables.lock().anonymous {
            return Err(ConsumerError::Started(id));
        }
        let id = self.open_with(Rights::ALL)?;
        let result =
            self.enable_program(id, dof).and_then(|enabled| self.start(id).map(|_| enabled));
        if result.is_err() {
            self.close(id)?;
            return result;
        }
        let mut tables = self.tables.lock();
        if let Some(other) = tables.anonymous {
            // Another thread was faster.
            drop(tables);
            self.close(id)?;
            return Err(ConsumerError::Started(other));
        }
        if let Some(state) = find(self.shared()?, id)?.1.state() {
            state.never_time_out();
        }
        tables.anonymous = Some(id);
        result
    }

    /// [`Dtrace::clean_anonymous`](crate::Dtrace::clean_anonymous).
    pub(crate) fn clean_anonymous(&self) -> bool {
        let tables = self.tables.lock();
        let Some(id) = tables.anonymous else { return false };
        let found = self.shared().and_then(|shared| find(shared, id));
        if let Ok((_, consumer)) = found
            && let Some(state) = consumer.state()
        {
            // SAFETY: the framework is locked.
            unsafe { self.clean(state) };
        }
        true
    }

    /// [`Dtrace::close_anonymous`](crate::Dtrace::close_anonymous).
    pub(crate) fn close_anonymous(&self) {
        let id = self.tables.lock().anonymous.take();
        // It is open, because no other caller has its number.
        if let Some(id) = id {
            let _ = self.close(id);
        }
    }

    /// [`Dtrace::claim`](crate::Dtrace::claim).
    pub(crate) fn claim(&self, rights: Rights) -> Option<ConsumerId> {
        if !rights.kernel() {
            return None;
        }
        let mut tables = self.tables.lock();
        let id = tables.anonymous.take()?;
        let consumer = find(self.shared().ok()?, id).ok()?.1;
        consumer.restrict(rights);
        if let Some(state) = consumer.state() {
            state.time_out_after(self.hits.host.timestamp());
        }
        Some(id)
    }
}
