//! Opening and closing of consumers.

use crate::base::host::Host;
use crate::base::rights::Rights;
use crate::control::error::ConsumerError;
use crate::control::session::Session;
use crate::control::{Control, find};
use crate::run::consumer::{Activity, ConsumerId};

impl<H: Host> Control<H> {
    /// [`Dtrace::open_with`](crate::Dtrace::open_with).
    pub(crate) fn open_with(&self, rights: Rights) -> Result<ConsumerId, ConsumerError> {
        if !rights.any() {
            return Err(ConsumerError::NotPermitted);
        }
        let consumers = self.shared()?.consumers;
        let mut tables = self.tables.lock();
        let (index, consumer) = consumers
            .iter()
            .enumerate()
            .find(|(_, consumer)| !consumer.is_open())
            .ok_or(ConsumerError::TooManyConsumers { max: consumers.len() })?;
        let id = loop {
            tables.last_consumer = tables.last_consumer.wrapping_add(1);
            match ConsumerId::new(tables.last_consumer) {
                Some(id) if !consumers.iter().any(|other| other.is(id)) => break id,
                Some(_) | None => {}
            }
        };
        let session = tables.arena.alloc(Session::new());
        let session = session.ok_or_else(|| tables.no_memory(size_of::<Session>()))?;
        if let Some(place) = tables.sessions.get_mut(index) {
            *place = Some(session);
        }
        consumer.open(id, rights);
        Ok(id)
    }

    /// [`Dtrace::close`](crate::Dtrace::close).
    pub(crate) fn close(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        let mut tables = self.tables.lock();
        let (index, consumer) = find(self.shared()?, id)?;
        consumer.set_activity(Activity::Stopped);
        tables.map.retract(index);
        if tables.anonymous == Some(id) {
            tables.anonymous = None;
        }
        tables.forget(|enabling| enabling.consumer == index);
        self.remove(&mut tables, index, |_, _| true);
        self.forget_functions(&mut tables, index);
        consumer.close();
        self.hits.host.sync();
        // SAFETY: the consumer has stopped, and `sync` has since waited until every CPU was outside probe context.
        unsafe { consumer.give_state(None) };
        if let Some(mut session) = tables.sessions.get_mut(index).and_then(Option::take) {
            let sent = core::mem::replace(&mut *session, Session::new());
            tables.arena.free(session);
            // SAFETY: `remove` has removed its enablings, and `sync` has since waited until every CPU was outside probe context.
            unsafe { sent.free(&mut tables.arena) };
        }
        Ok(())
    }
}
