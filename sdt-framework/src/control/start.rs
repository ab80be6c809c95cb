//! Starting and stopping of consumers (`dtrace_state_go`, `dtrace_state_stop`).

use dtrace_abi::spec::Spec;

use crate::base::host::Host;
use crate::control::enable::Wanted;
use crate::control::error::ConsumerError;
use crate::control::prepare::{Given, prepare};
use crate::control::tables::Tables;
use crate::control::{Control, find};
use crate::run::consumer::{Activity, Consumer, ConsumerId};
use crate::run::own::Own;

impl<H: Host> Control<H> {
    /// [`Dtrace::enable`](crate::Dtrace::enable).
    pub(crate) fn enable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        let clause = {
            let shared = self.shared()?;
            let mut tables = self.tables.lock();
            let (index, consumer) = find(shared, id)?;
            let has_started = consumer.activity() != Activity::Inactive;
            let Tables { arena, sessions, .. } = &mut *tables;
            let session = sessions.get_mut(index).and_then(Option::as_deref_mut);
            let session = session.ok_or(ConsumerError::NotOpen(id))?;
            // The buffers have room for the clause only if they were allocated after the clause was built.
            if session.arguments.is_none() && consumer.state().is_some() {
                return Err(ConsumerError::Started(id));
            }
            let clause = session.take_arguments(arena, shared.cpus.len())?;
            if has_started {
                self.prepare(&mut tables, id, index, consumer)?;
            }
            clause
        };
        self.enable_wanted(id, &Wanted { spec, clause, program: None }).map(|(probes, _)| probes)
    }

    /// [`Dtrace::go`](crate::Dtrace::go); returns the CPU on which `dtrace:::BEGIN` has fired.
    pub(crate) fn start(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        let mut tables = self.tables.lock();
        let (index, consumer) = find(self.shared()?, id)?;
        if !matches!(consumer.activity(), Activity::Inactive | Activity::Stopped) {
            return Ok(self.hits.host.without_interrupts(|| self.hits.host.cpu()));
        }
        self.prepare(&mut tables, id, index, consumer)?;
        consumer.set_activity(Activity::Warmup);
        let cpu = self.fire_own(Own::Begin, index, id);
        self.start_timers();
        consumer.change_activity(Activity::Warmup, Activity::Active);
        Ok(cpu)
    }

    fn fire_own(&self, own: Own, consumer: usize, id: ConsumerId) -> usize {
        let args = [id.get().into(), 0, 0, 0, 0, 0, 0, 0, 0, 0];
        self.hits.fire_own(own, consumer, &args)
    }

    /// Allocates the state of a consumer's run, if it has clauses and no state yet.
    fn prepare(
        &self,
        tables: &mut Tables,
        id: ConsumerId,
        index: usize,
        consumer: &Consumer,
    ) -> Result<(), ConsumerError> {
        let now = self.hits.host.timestamp();
        if let Some(state) = consumer.state() {
            state.hear(now);
            return Ok(());
        }
        let (usual, share) = (tables.buffer, tables.share);
        let (cpus, costs) = (self.cpus(), self.hits.host.kernel().costs());
        let Tables { arena, sessions, map, .. } = tables;
        let session = sessions.get_mut(index).and_then(Option::as_deref_mut);
        let session = session.ok_or(ConsumerError::NotOpen(id))?;
        session.settle(arena);
        let Some(programs) = &session.programs else { return Ok(()) };
        let given = Given { cpus, usual, share, costs, now };
        let sent = (programs, &session.options);
        let memory = (arena, &mut session.running);
        let made = prepare(sent, (id.get(), consumer), given, map, memory)?;
        session.options.lower(made.sizes);
        if session.arguments.is_some() {
            // The consumer is the kernel itself, which cannot disappear.
            made.state.never_time_out();
        }
        // SAFETY: the consumer has not started since it was opened, or has had no enablings since, so no CPU reads the state; `close`
        // of the previous consumer has waited for every CPU to leave probe context.
        unsafe { consumer.give_state(Some(made.state)) };
        map.publish(index, id.get(), made.shown);
        Ok(())
    }

    /// [`Dtrace::stop`](crate::Dtrace::stop); returns the CPU on which `dtrace:::END` has fired.
    pub(crate) fn stop(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        let _tables = self.tables.lock();
        let (index, consumer) = find(self.shared()?, id)?;
        let mut cpu = self.hits.host.without_interrupts(|| self.hits.host.cpu());
        if matches!(consumer.activity(), Activity::Active | Activity::Draining) {
            consumer.set_activity(Activity::Draining);
            self.hits.host.sync();
            consumer.change_activity(Activity::Draining, Activity::Cooldown);
            cpu = self.fire_own(Own::End, index, id);
            consumer.change_activity(Activity::Cooldown, Activity::Stopped);
        }
        self.hits.host.sync();
        Ok(cpu)
    }
}
