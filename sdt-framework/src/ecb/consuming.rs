//! Consumers open the framework, choose the size of their buffers, and close.

use core::sync::atomic::Ordering;

use crate::buffer::{self, Activity, ConsumerError, ConsumerId, LONGEST};
use crate::dtrace::Dtrace;
use crate::host::Host;
use crate::program::session::Session;
use crate::rights::Rights;

/// # Consumers come and go
///
/// Whoever traces is a consumer, from [`open`](Self::open) to [`close`](Self::close).
impl<H: Host> Dtrace<H> {
    /// Opens the framework for one more consumer, which may do everything: [`open_with`](Self::open_with).
    ///
    /// # Errors
    /// As there.
    pub fn open(&self) -> Result<ConsumerId, ConsumerError> {
        self.open_with(Rights::ALL)
    }

    /// Opens the framework for one more consumer, which may do this much and no more until it is closed. While any is
    /// open, no provider can be unregistered.
    ///
    /// # Errors
    /// [`ConsumerError::TooManyConsumers`], [`ConsumerError::NoMemory`], [`ConsumerError::NotReady`];
    /// [`ConsumerError::NotPermitted`] if it may do
    /// nothing at all.
    pub fn open_with(&self, rights: Rights) -> Result<ConsumerId, ConsumerError> {
        if !rights.any() {
            return Err(ConsumerError::NotPermitted);
        }
        self.need_thread()?;
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let consumer = shared
            .consumers
            .iter()
            .find(|consumer| !consumer.is_open())
            .ok_or(ConsumerError::TooManyConsumers { max: shared.consumers.len() })?;
        let id = loop {
            tables.last_consumer = tables.last_consumer.wrapping_add(1);
            match ConsumerId::new(tables.last_consumer) {
                Some(id) if !shared.consumers.iter().any(|other| other.is(id)) => break id,
                _ => {}
            }
        };
        let index = shared.consumers.iter().position(|other| core::ptr::eq(other, consumer));
        let left = tables.arena.left();
        let session = tables.arena.alloc(Session::new(rights.into()));
        let session =
            session.ok_or(ConsumerError::NoMemory { needed: size_of::<Session>(), left })?;
        if let Some(place) = index.and_then(|index| tables.sessions.get_mut(index)) {
            *place = Some(session);
        }
        consumer.open(id, tables.buffer, rights);
        Ok(id)
    }

    /// Closes a consumer: its enablings go, probes that nobody else has enabled are disabled, what
    /// was recorded for it and not read is dropped, and its memory can be used by others.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn close(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.need_thread()?;
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (index, consumer) = shared.consumer(id)?;
        consumer.turn(Activity::Stopped);
        tables.map.retract(index);
        if tables.anonymous == Some(id) {
            tables.anonymous = None;
        }
        tables.forget(|enabling| enabling.consumer == index);
        self.remove(&mut tables, index, |_, _| true);
        consumer.close();
        self.host.sync();
        // SAFETY: it has stopped, and since then every CPU has been outside probe context.
        unsafe {
            consumer.give_tracing(None);
            if let Some(buffers) = consumer.take() {
                // No CPU writes to them, and no reader finds them any more.
                buffer::free(&mut tables.arena, buffers);
            }
        }
        if let Some(mut session) = tables.sessions.get_mut(index).and_then(Option::take) {
            let sent = core::mem::replace(&mut *session, Session::new(Rights::NONE.into()));
            tables.arena.free(session);
            // SAFETY: its enablings are gone, and since then every CPU has been outside probe context.
            unsafe { sent.free(&mut tables.arena) };
        }
        Ok(())
    }

    /// Chooses how many bytes a CPU's buffer for this consumer has, from when it first goes on. Without it they are those
    /// of the [configuration](crate::Config::buffer).
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::SmallBuffer`]; [`ConsumerError::HasBuffers`] once it has gone.
    pub fn set_buffer(&self, id: ConsumerId, bytes: usize) -> Result<(), ConsumerError> {
        self.need_thread()?;
        let shared = self.shared()?;
        let _tables = self.tables.lock();
        let (_, consumer) = shared.consumer(id)?;
        if consumer.has_buffers() {
            return Err(ConsumerError::HasBuffers(id));
        }
        if bytes < LONGEST {
            return Err(ConsumerError::SmallBuffer { bytes, least: LONGEST });
        }
        consumer.size.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}
