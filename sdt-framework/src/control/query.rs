//! Queries of consumers: records, their descriptions, and the status of the run.

use core::sync::atomic::Ordering;

use dtrace_abi::record::{EprobeDesc, RecordDesc};

use crate::base::host::Host;
use crate::base::sync::{AtomicCount, widen};
use crate::control::error::ConsumerError;
use crate::control::pool::EcbUse;
use crate::control::{Control, find};
use crate::registry::tables::number;
use crate::run::buffer::{Policy, RecordBuffer};
use crate::run::consumer::{Activity, Consumer, ConsumerId};
use crate::run::state::{Cpu, RunState};
use crate::run::words::get_bytes;

/// A kind of buffer of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// The buffer of records: each a header (`dtrace_rechdr_t`) and data, with zeroes between them (`DTRACE_EPIDNONE`).
    Records,
    /// The buffer of aggregations: tuples, each beginning with the number of its aggregation.
    Aggregations,
}

/// The contents of a switched buffer (`dtrace_bufdesc_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Its size in bytes.
    pub size: usize,
    /// The offset of the oldest record, 0 except in rings that have wrapped around; the records before it are the
    /// latest.
    pub oldest: usize,
    /// The number of drops since the last read.
    pub drops: u64,
    /// Executions that were aborted on this CPU since then.
    pub errors: u64,
    /// The time at which it was switched, in nanoseconds since boot.
    pub timestamp: u64,
    /// The number of bytes that were read.
    pub read: usize,
}

/// The description of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationDesc {
    /// The number of its variable, which is its first key; 0 if that key is not a constant.
    pub variable: u32,
    /// The first enabled probe that aggregates; 0 if there is none.
    pub epid: u32,
    /// Bytes of a tuple.
    pub size: u32,
    /// The number of data descriptions of a tuple.
    pub records: u32,
}

/// The status of a consumer's run (`dtrace_status_t`). All counts are totals of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Drops of dynamic variables because there was no free memory.
    pub dynamic_drops: u64,
    /// Drops of dynamic variables because free chunks were being rinsed.
    pub dynamic_drops_rinsing: u64,
    /// Drops of dynamic variables because free chunks were dirty.
    pub dynamic_drops_dirty: u64,
    /// Records that did not fit into a speculative buffer.
    pub speculation_drops: u64,
    /// Requests for a speculation that failed because all were being cleaned.
    pub speculations_busy: u64,
    /// Requests for a speculation that failed because programs used all of them.
    pub speculations_unavailable: u64,
    /// Executions that were aborted.
    pub errors: u64,
    /// Buffers that are full, under the policy `fill`.
    pub filled: u64,
    /// Buffers of which more than half is used, under the policy `switch`. A consumer reads them soon, so that no record is dropped.
    pub half_filled: u64,
    /// Executions of `dtrace:::ERROR` clauses that were aborted.
    pub double_errors: u64,
    /// The consumer has timed out: nothing is recorded for it any more.
    pub killed: bool,
    /// Whether the run is ending: a program has called `exit()`, or `dtrace:::END` is firing.
    pub exiting: bool,
}

/// Copies the descriptions after the first `skip` to `into`, as many as fit. Returns the total number of descriptions.
fn list<'a>(
    all: impl Iterator<Item = &'a RecordDesc>,
    skip: usize,
    into: &mut [RecordDesc],
) -> u32 {
    let mut count = 0;
    for (index, desc) in all.enumerate() {
        let place = index.checked_sub(skip).and_then(|index| into.get_mut(index));
        if let Some(place) = place {
            *place = *desc;
        }
        count += 1;
    }
    count
}

impl<H: Host> Control<H> {
    /// [`Dtrace::eprobe`](crate::Dtrace::eprobe).
    pub(crate) fn eprobe(
        &self,
        id: ConsumerId,
        epid: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<EprobeDesc>, ConsumerError> {
        let shared = self.shared()?;
        let tables = self.tables.lock();
        let (consumer, _) = find(shared, id)?;
        let Some(EcbUse { probe, clause, .. }) = tables.ecbs.find(consumer, epid) else {
            return Ok(None);
        };
        let probe = number(probe as usize);
        // SAFETY: the consumer is open and the framework is locked, so `close` does not free the clause meanwhile.
        let clause = unsafe { clause.as_ref() };
        let records = list(clause.data(), skip, into);
        let size = clause.layout.size();
        Ok(Some(EprobeDesc { epid, probe, uarg: clause.uarg, size, records }))
    }

    /// [`Dtrace::aggregation`](crate::Dtrace::aggregation).
    pub(crate) fn aggregation(
        &self,
        id: ConsumerId,
        aggregation: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<AggregationDesc>, ConsumerError> {
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (consumer, _) = find(shared, id)?;
        let programs = tables.session(consumer).and_then(|session| session.programs.as_ref());
        let found = programs.and_then(|programs| programs.aggregation(aggregation));
        let Some((clause, found)) = found else { return Ok(None) };
        let records = list(clause.tuple(found), skip, into);
        let ecbs = &tables.ecbs;
        let mut uses = core::iter::successors(ecbs.first_of(consumer), |at| ecbs.next(*at))
            .filter_map(|at| ecbs.used_for(at));
        let is_its = |of: &EcbUse| core::ptr::eq(of.clause.as_ptr(), clause);
        let epid = uses.find(is_its).map_or(0, |of| of.epid);
        let size = found.size();
        Ok(Some(AggregationDesc { variable: found.variable, epid, size, records }))
    }

    /// [`Dtrace::format`](crate::Dtrace::format).
    pub(crate) fn format(
        &self,
        id: ConsumerId,
        number: u16,
        at: usize,
        into: &mut [u8],
    ) -> Result<Option<usize>, ConsumerError> {
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (consumer, _) = find(shared, id)?;
        let programs = tables.session(consumer).and_then(|session| session.programs.as_ref());
        let text = programs.and_then(|programs| programs.format(number));
        Ok(text.map(|text| {
            let rest = text.get(at..).unwrap_or_default();
            into.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            rest.len().min(into.len())
        }))
    }

    /// [`Dtrace::snapshot`](crate::Dtrace::snapshot).
    pub(crate) fn snapshot(
        &self,
        id: ConsumerId,
        cpu: usize,
        which: Which,
        at: usize,
        into: &mut [u8],
    ) -> Result<Snapshot, ConsumerError> {
        let shared = self.shared()?;
        let _tables = self.tables.lock();
        let (_, consumer) = find(shared, id)?;
        if cpu >= shared.cpus.len() {
            return Err(ConsumerError::NoCpu(cpu));
        }
        let found = consumer.state().and_then(|of| Some((of, of.here(cpu)?)));
        let Some((state, here)) = found else { return Ok(Snapshot::default()) };
        let now = || self.hits.host.timestamp();
        // Restarts the timeout: to read a large buffer over a slow line can take longer than the timeout.
        state.hear(now());
        match which {
            Which::Records => self.records(id, consumer, (state, here), at, into, now),
            Which::Aggregations => Ok(self.aggregated(here, at, into, now)),
        }
    }

    fn records(
        &self,
        id: ConsumerId,
        consumer: &Consumer,
        (state, here): (&RunState, &Cpu),
        at: usize,
        into: &mut [u8],
        now: impl Fn() -> u64,
    ) -> Result<Snapshot, ConsumerError> {
        let [switched, _] = &here.switched;
        let switches = state.policy == Policy::Switch;
        let activity = consumer.activity();
        let has_ended = matches!(activity, Activity::Stopped | Activity::Killed);
        if !switches && !has_ended {
            return Err(ConsumerError::Started(id));
        }
        if at == 0 {
            switched.set(now());
            state.begin_cleaning();
            if switches {
                // A CPU that still fills the old half may set the flag again; then the consumer reads one time more than
                // necessary.
                here.half_filled.store(0, Ordering::Relaxed);
                // SAFETY: with the framework locked this is the one reader.
                unsafe {
                    here.records.switch(|of| of.restart(H::discard), || self.hits.host.sync())
                };
            } else {
                self.hits.host.sync();
            }
        } else if !switches && activity == Activity::Killed {
            // Other CPUs may have been recording for a consumer that has just timed out.
            self.hits.host.sync();
        }
        let timestamp = switched.get();
        let clean = |of: &mut RecordBuffer| {
            if at == 0 {
                // SAFETY: the framework is locked, so no other thread cleans; and `switch` or `sync` above has waited
                // for every CPU to leave probe context since `begin_cleaning`.
                unsafe { state.clean(Some((here, of, timestamp))) };
            }
        };
        // SAFETY: with the framework locked this is the one reader; a buffer that is not switched has ended, and every CPU has left
        // probe context since.
        unsafe {
            match switches {
                true => here.records.read(clean),
                false => here.records.read_writers(clean),
            }
        }
        let read = |of: &mut RecordBuffer| {
            let (size, oldest) = of.extent();
            let read = of.read(at, into);
            Snapshot { size, oldest, drops: of.drops, errors: of.errors, timestamp, read }
        };
        // SAFETY: the framework is locked, so this is the only reader. A buffer that is not switched has ended, and
        // every CPU has left probe context since.
        Ok(unsafe {
            match switches {
                true => here.records.read(read),
                false => here.records.read_writers(read),
            }
        })
    }

    fn aggregated(
        &self,
        here: &Cpu,
        at: usize,
        into: &mut [u8],
        now: impl Fn() -> u64,
    ) -> Snapshot {
        let [_, switched] = &here.switched;
        if at == 0 {
            switched.set(now());
            // SAFETY: with the framework locked this is the one reader.
            unsafe { here.aggregated.switch(|of| of.restart(), || self.hits.host.sync()) };
        }
        let timestamp = switched.get();
        // SAFETY: with the framework locked this is the only reader, and `switch` above has called `sync`.
        unsafe {
            here.aggregated.read(|of| {
                let words = of.buffer.records();
                let read = get_bytes(words, at, into);
                let (size, drops) = (words.len() * 8, of.drops());
                Snapshot { size, oldest: 0, drops, errors: 0, timestamp, read }
            })
        }
    }

    /// [`Dtrace::status`](crate::Dtrace::status).
    pub(crate) fn status(&self, id: ConsumerId) -> Result<Status, ConsumerError> {
        let shared = self.shared()?;
        let _tables = self.tables.lock();
        let (_, consumer) = find(shared, id)?;
        let activity = consumer.activity();
        let mut status = Status {
            killed: activity == Activity::Killed,
            exiting: matches!(activity, Activity::Draining | Activity::Cooldown),
            ..Status::default()
        };
        let Some(state) = consumer.state() else { return Ok(status) };
        state.hear(self.hits.host.timestamp());
        // SAFETY: the framework is locked.
        unsafe { self.clean(state) };
        let drops = state.memory.dynamic.drops();
        let sum = |count: fn(&Cpu) -> &AtomicCount| {
            let counts = state.parts().map(|(_, cpu)| widen(count(cpu).load(Ordering::Relaxed)));
            counts.fold(0, u64::wrapping_add)
        };
        status.dynamic_drops = drops.empty;
        status.dynamic_drops_dirty = drops.dirty;
        status.dynamic_drops_rinsing = drops.rinsing;
        status.errors = sum(|cpu| &cpu.errors);
        status.double_errors = sum(|cpu| &cpu.double_errors);
        status.filled = sum(|cpu| &cpu.filled);
        status.half_filled = sum(|cpu| &cpu.half_filled);
        status.speculation_drops = sum(|cpu| &cpu.speculation_drops);
        status.speculations_busy = sum(|cpu| &cpu.lacks[0]);
        status.speculations_unavailable = sum(|cpu| &cpu.lacks[1]);
        Ok(status)
    }

    /// Makes variables that were removed, and speculations that were discarded, usable again (`dtrace_state_clean`, dtrace.c).
    ///
    /// # Safety
    /// The framework is locked.
    pub(super) unsafe fn clean(&self, state: &RunState) {
        state.memory.dynamic.clean(|| self.hits.host.sync());
        if state.begin_cleaning() {
            self.hits.host.sync();
            // SAFETY: the framework is locked, so no other thread cleans; and `sync` has waited for every CPU to leave
            // probe context since `begin_cleaning`.
            unsafe { state.clean(None) };
        }
    }
}
