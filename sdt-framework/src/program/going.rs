//! Consumers go and stop (`dtrace_state_go`, `dtrace_state_stop`).

use core::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::buffer::{self, Activity, Buffer, Consumer, ConsumerError, ConsumerId, LONGEST};
use crate::dtrace::{Dtrace, Shared};
use crate::host::Host;
use crate::providers::Own;
use crate::registry::tables::Tables;

/// # A consumer goes and stops
///
/// In between is recorded what it has enabled.
impl<H: Host> Dtrace<H> {
    /// From here on is recorded for the consumer. The first time its buffers are made: those that its programs need, and,
    /// unless it has sent programs and nothing else, those of arguments that are recorded. `dtrace:::BEGIN` has fired for
    /// it before the return.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::NoMemory`]: another size can be [chosen](Self::set_buffer);
    /// [`ConsumerError::SmallBuffer`] if the one that is chosen holds no record.
    pub fn go(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.begin(id).map(drop)
    }

    /// As [`go`](Self::go); returns the CPU on which `dtrace:::BEGIN` has fired.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn begin(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        self.need_thread()?;
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (index, consumer) = shared.consumer(id)?;
        if !matches!(consumer.activity(), Activity::Inactive | Activity::Stopped) {
            return Ok(self.host.without_interrupts(|| self.host.cpu()));
        }
        self.prepare(shared, &mut tables, id, index, consumer)?;
        if let Some(tracing) = consumer.tracing() {
            tracing.alive.set(self.host.timestamp());
        }
        consumer.turn(Activity::Warmup);
        let cpu = self.fire_own(Own::Begin, index, &[id.get().into(), 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.start_timers();
        consumer.turn_from(Activity::Warmup, Activity::Active);
        Ok(cpu)
    }

    /// Makes what a consumer needs to go, as far as it is not there.
    fn prepare(
        &self,
        shared: &Shared<H>,
        tables: &mut Tables,
        id: ConsumerId,
        index: usize,
        consumer: &Consumer<H>,
    ) -> Result<(), ConsumerError> {
        let sizes = (tables.buffer, tables.share);
        let records_arguments = tables.retains_arguments(index);
        let Tables { arena, sessions, map, .. } = tables;
        let session = sessions.get_mut(index).and_then(Option::as_deref_mut);
        let session = session.ok_or(ConsumerError::NotOpen(id))?;
        let cpus = shared.cpus.len();
        let made = if session.programs.is_some() && consumer.tracing().is_none() {
            let now = (self.host.timestamp(), self.host.kernel().costs());
            let seen = (&*map, &consumer.activity);
            session.prepare(arena, cpus, id.get(), sizes, now, seen)?
        } else {
            None
        };
        if (session.programs.is_none() || records_arguments)
            && let Err(error) = Self::make_buffers(arena, cpus, consumer)
        {
            // It may send another program yet, and what it has then is made for all of them.
            if made.is_some() {
                // SAFETY: nothing of it has gone anywhere.
                unsafe { session.unprepare(arena) };
            }
            return Err(error);
        }
        if let Some(made) = made {
            // SAFETY: it has not gone since it was opened, and before that nothing of it was left.
            unsafe { consumer.give_tracing(Some(made.tracing)) };
            map.publish(index, id.get(), made.shown);
        }
        Ok(())
    }

    /// Makes the buffers of arguments, if it has none.
    fn make_buffers(
        arena: &mut Arena,
        cpus: usize,
        consumer: &Consumer<H>,
    ) -> Result<(), ConsumerError> {
        if !consumer.has_buffers() {
            let bytes = consumer.size.load(Ordering::Relaxed);
            if bytes < LONGEST {
                return Err(ConsumerError::SmallBuffer { bytes, least: LONGEST });
            }
            let left = arena.left();
            let buffers = buffer::allocate(arena, cpus, bytes / size_of::<u64>());
            let buffers = buffers.ok_or(ConsumerError::NoMemory {
                needed: cpus.saturating_mul(bytes).saturating_add(Arena::footprint::<Buffer>(cpus)),
                left,
            })?;
            // SAFETY: it is not going. It has none, so it has gone with programs alone since it was opened, or not at all, and
            // when it stopped every CPU left probe context.
            unsafe { consumer.give(buffers) };
        }
        Ok(())
    }

    /// Ends what [`go`](Self::go) began. After the return no CPU is writing for the consumer any more,
    /// so what is read then is complete; `dtrace:::END` has fired for it. Its enablings and buffers stay.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn stop(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.end(id).map(drop)
    }

    /// As [`stop`](Self::stop); returns the CPU on which `dtrace:::END` has fired.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn end(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        self.need_thread()?;
        let shared = self.shared()?;
        let _tables = self.tables.lock();
        let (index, consumer) = shared.consumer(id)?;
        let mut cpu = self.host.without_interrupts(|| self.host.cpu());
        if matches!(consumer.activity(), Activity::Active | Activity::Draining) {
            consumer.turn(Activity::Draining);
            self.host.sync();
            consumer.turn_from(Activity::Draining, Activity::Cooldown);
            cpu = self.fire_own(Own::End, index, &[id.get().into(), 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            consumer.turn_from(Activity::Cooldown, Activity::Stopped);
        }
        self.host.sync();
        Ok(cpu)
    }
}
