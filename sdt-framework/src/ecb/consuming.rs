//! Consumers open the framework, choose the size of their buffers, go, stop, and close.

use core::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::buffer::{self, Buffer, ConsumerError, ConsumerId, LONGEST};
use crate::dtrace::Dtrace;
use crate::host::Host;
use crate::rights::Rights;

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
    /// [`ConsumerError::TooManyConsumers`], [`ConsumerError::NotReady`]; [`ConsumerError::NotPermitted`] if it may do
    /// nothing at all.
    pub fn open_with(&self, rights: Rights) -> Result<ConsumerId, ConsumerError> {
        if !rights.any() {
            return Err(ConsumerError::NotPermitted);
        }
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
        consumer.open(id, tables.buffer, rights);
        Ok(id)
    }

    /// Closes a consumer: its enablings go, probes that nobody else has enabled are disabled, what
    /// was recorded for it and not read is dropped, and its memory can be used by others.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn close(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (index, consumer) = shared.consumer(id)?;
        consumer.stop();
        tables.forget(|enabling| enabling.consumer == index);
        self.remove(&mut tables, index, |_, _| true);
        consumer.close();
        if consumer.has_buffers() {
            self.host.sync();
            // SAFETY: it has stopped, and since then every CPU has been outside probe context.
            if let Some(buffers) = unsafe { consumer.take() } {
                // SAFETY: no CPU writes to them, and no reader finds them any more.
                unsafe { buffer::free(&mut tables.arena, buffers) };
            }
        }
        Ok(())
    }

    /// Chooses how many bytes a CPU's buffer for this consumer has, from when it first goes on. Without it they are those
    /// of the [configuration](crate::Config::buffer).
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::SmallBuffer`]; [`ConsumerError::HasBuffers`] once it has gone.
    pub fn set_buffer(&self, id: ConsumerId, bytes: usize) -> Result<(), ConsumerError> {
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

    /// From here on records are written for the consumer. The first time its buffers are made.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::NoMemory`]: another size can be [chosen](Self::set_buffer);
    /// [`ConsumerError::SmallBuffer`] if the configuration's is.
    pub fn go(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (_, consumer) = shared.consumer(id)?;
        if !consumer.has_buffers() {
            let (cpus, bytes) = (shared.cpus.len(), consumer.size.load(Ordering::Relaxed));
            if bytes < LONGEST {
                return Err(ConsumerError::SmallBuffer { bytes, least: LONGEST });
            }
            let left = tables.arena.left();
            let buffers = buffer::allocate(&mut tables.arena, cpus, bytes / size_of::<u64>());
            let buffers = buffers.ok_or(ConsumerError::NoMemory {
                needed: cpus.saturating_mul(bytes).saturating_add(Arena::footprint::<Buffer>(cpus)),
                left,
            })?;
            // SAFETY: it has none, so it has not gone since it was opened; and before that its buffers were
            // taken away.
            unsafe { consumer.give(buffers) };
        }
        consumer.go();
        Ok(())
    }

    /// Ends what [`go`](Self::go) began. After the return no CPU is writing for the consumer any more,
    /// so what is read then is complete. Its enablings and buffers stay.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn stop(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        let shared = self.shared()?;
        let _tables = self.tables.lock();
        let (_, consumer) = shared.consumer(id)?;
        consumer.stop();
        self.host.sync();
        Ok(())
    }
}
