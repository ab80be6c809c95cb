//! A trace that goes on: what it records is taken, and shown, until it is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dtrace_abi::option::{BufPolicy, OptionId, UNSET};
use dtrace_abi::record::Status;
use dtrace_compiler::options::Options;
use dtrace_compiler::types::Types;
use dtrace_protocol::{Run, SnapshotOf};

use super::TraceError;
use crate::budget::{Share, Use};
use crate::client::{Client, ClientError, Snapshot};
use crate::kernel::{Kernel, Told};
use crate::render::{Aggregations, Buffer, Consumer, Ends, Schedule, Sink, View, World};

/// How often things are done, if options do not say so.
const RATE: Duration = Duration::from_secs(1);
/// So often a kernel is asked at least whether a program has ended: oftener than dtrace(1), which may notice it a second
/// later.
const BEAT: Duration = Duration::from_millis(50);

/// When something was done the last time.
#[derive(Clone, Copy, Debug, Default)]
struct Due(Option<Instant>);

impl Due {
    /// How long it is until it is to be done again.
    fn left(self, rate: Duration) -> Duration {
        self.0.map_or(Duration::ZERO, |last| rate.saturating_sub(last.elapsed()))
    }

    /// Whether it is to be done now; then it has been.
    fn now(&mut self, rate: Duration, at_once: bool) -> bool {
        let due = at_once || self.left(rate).is_zero();
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

/// For whom it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Rust's names are shown as they are in the file.
    pub raw_names: bool,
    /// Bars have a colour.
    pub color: bool,
    /// Data go to a terminal.
    pub terminal: bool,
}

/// A trace that goes on.
#[derive(Debug)]
pub struct Running {
    kernel: Kernel,
    names: BTreeMap<u32, String>,
    types: Types,
    consumer: Consumer,
    schedule: Schedule,
    /// What buffers of records take that have not been shown.
    buffers: Share,
    cpus: Vec<u32>,
    /// Where BEGIN fired, until the first buffers have been taken.
    began: Option<u32>,
    /// Where END fired.
    ended: Option<u32>,
    status: Due,
    aggregate: Due,
    switch: Due,
    /// How often aggregations have been taken.
    taken: u64,
    /// The kernel has gone, and has not been let go.
    forsaken: bool,
}

impl Running {
    /// A trace of these CPUs that has begun; on which one, unless that was before it was claimed.
    pub(super) fn new(
        kernel: Kernel,
        names: BTreeMap<u32, String>,
        types: Types,
        consumer: Consumer,
        cpus: Vec<u32>,
        began: Option<u32>,
    ) -> Self {
        let buffers = kernel.budget().share(Use::Buffers);
        Self {
            kernel,
            names,
            types,
            consumer,
            schedule: Schedule::new(),
            buffers,
            cpus,
            began,
            ended: None,
            status: Due::default(),
            aggregate: Due::default(),
            switch: Due::default(),
            taken: 0,
            forsaken: false,
        }
    }

    /// Has Rust's names shown as they are in the file, bars in colour, and data so that a terminal does not obey them.
    pub fn look(&mut self, Look { raw_names, color, terminal }: Look) {
        let settings = self.consumer.settings_mut();
        (settings.raw_names, settings.color, settings.terminal) = (raw_names, color, terminal);
    }

    /// How often aggregations have been taken so far.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    fn rate(&self, option: OptionId) -> Duration {
        match u64::try_from(self.consumer.settings().options.get(option)) {
            Ok(rate) => Duration::from_nanos(rate),
            Err(_) => RATE,
        }
    }

    fn status_rate(&self) -> Duration {
        self.rate(OptionId::Statusrate).min(BEAT)
    }

    /// How long it is until there is something to do.
    pub fn pause(&self) -> Duration {
        let aggregate = self.aggregate.left(self.rate(OptionId::Aggrate));
        let switch = self.switch.left(self.rate(OptionId::Switchrate));
        self.status.left(self.status_rate()).min(aggregate).min(switch)
    }

    /// Whether it is over: nothing more is recorded.
    pub const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// What has been aggregated up to the last time that buffers were taken.
    pub const fn aggregations(&self) -> &Aggregations {
        self.consumer.aggregations()
    }

    /// The kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What the kernel is called among several.
    pub fn host(&self) -> Option<&str> {
        self.consumer.settings().host.as_deref()
    }

    /// The options, as programs have set them by now.
    pub(crate) const fn options(&self) -> &Options {
        &self.consumer.settings().options
    }

    /// What the last `exit` said.
    pub(crate) const fn exit_status(&self) -> Option<u32> {
        self.consumer.exit_status()
    }

    /// Adds what has been aggregated to that of others.
    pub(crate) fn add_all(&self, all: &mut Aggregations) {
        self.consumer.add_to(all, false);
    }

    /// Adds what nobody has printed to that of others.
    pub(crate) fn add_unprinted(&self, all: &mut Aggregations) {
        self.consumer.add_to(all, true);
    }

    /// Lets the kernel go.
    pub(crate) fn close(self) -> Result<(), ClientError> {
        self.kernel.ask(Client::close)
    }

    /// Gives what has been aggregated, and what is needed to show it.
    pub fn view<R>(&self, show: impl FnOnce(&Aggregations, &View<'_>) -> R) -> R {
        let mut told = Told { kernel: &self.kernel, names: &self.names };
        let world = World { descriptions: &mut told, symbols: &self.kernel, types: &self.types };
        show(self.consumer.aggregations(), &self.consumer.view(&world))
    }

    /// Whether it was ended on the other side, and not by a program: there is no `exit` in what has been recorded.
    pub fn was_ended(&self) -> bool {
        self.is_over() && self.consumer.exit_status().is_none() && !self.fills()
    }

    /// The kernel has gone: what is left is to show what has been taken.
    pub fn forsake(&mut self) {
        self.forsaken = true;
    }

    /// Ends it. `dtrace:::END` has fired when this returns; what has been recorded is still to be taken.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn stop(&mut self) -> Result<(), TraceError> {
        if self.ended.is_none() {
            self.ended = Some(self.kernel.ask(Client::stop)?);
        }
        Ok(())
    }

    /// Does what is due (`dtrace_work`, dt_work.c): looks how the kernel is, takes buffers, gives what is in them to
    /// the sink. Returns whether the trace is over, and all of it has been taken.
    ///
    /// # Errors
    /// The kernel failed or has given this consumer up; what it has recorded cannot be shown.
    pub fn work(&mut self, sink: &mut dyn Sink) -> Result<bool, TraceError> {
        self.work_now(sink, false)
    }

    /// As [`work`](Self::work); with `at_once` buffers are taken, whether they are due or not.
    ///
    /// # Errors
    /// As there.
    pub fn work_now(&mut self, sink: &mut dyn Sink, at_once: bool) -> Result<bool, TraceError> {
        let rate = self.status_rate();
        if self.is_over() || self.status.now(rate, at_once) {
            let run = self.ask_status(sink)?;
            if !self.is_over() && (run.exiting || self.fills() && run.filled != 0) {
                self.stop()?;
                self.ask_status(sink)?;
            }
        }
        let over = self.is_over();
        // Rings, and buffers that are filled, are taken at the end.
        if !over && self.policy().is_some_and(|policy| policy != BufPolicy::Switch) {
            return Ok(false);
        }
        let (aggrate, switchrate) = (self.rate(OptionId::Aggrate), self.rate(OptionId::Switchrate));
        // What a record prints was aggregated before it was made, however long the line takes for the rest.
        let records = match self.switch.now(switchrate, over || at_once) {
            true => Some(self.take_records(sink)?),
            false => None,
        };
        let aggregated = match self.aggregate.now(aggrate, over || at_once) {
            true => self.take_aggregations(sink),
            false => Ok(()),
        };
        // If the line broke meanwhile, these are here.
        let shown = records.map_or(Ok(()), |records| self.show_records(records, sink));
        aggregated.and(shown)?;
        sink.flush()?;
        // What failed while it was shown.
        self.kernel.check()?;
        Ok(over)
    }

    fn policy(&self) -> Option<BufPolicy> {
        let policy = self.consumer.settings().options.get(OptionId::Bufpolicy);
        u32::try_from(policy).ok().and_then(BufPolicy::from_number)
    }

    fn fills(&self) -> bool {
        self.policy() == Some(BufPolicy::Fill)
    }

    /// Asks how the run is, and says what was dropped.
    fn ask_status(&mut self, sink: &mut dyn Sink) -> Result<Run, TraceError> {
        let run = self.kernel.ask(Client::run)?;
        let Self { kernel, names, types, consumer, .. } = self;
        let mut told = Told { kernel, names };
        let world = World { descriptions: &mut told, symbols: kernel, types };
        consumer.status(status(&run), &world, sink)?;
        Ok(run)
    }

    /// A CPU's buffer; nothing, and a message, if it was damaged on the line.
    fn snapshot(
        &self,
        cpu: u32,
        buffer: SnapshotOf,
        sink: &mut dyn Sink,
    ) -> Result<Snapshot, TraceError> {
        match self.kernel.ask(|client| client.snapshot(cpu, buffer)) {
            Err(ClientError::Damaged) => {
                // dtrace(1) has no line, and no such message.
                sink.message("1 answer damaged on the line: records may be missing\n")?;
                Ok(Snapshot::default())
            }
            snapshot => Ok(snapshot?),
        }
    }

    fn take_aggregations(&mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        for index in 0..self.cpus.len() {
            let cpu = self.cpus[index];
            let taken = self.snapshot(cpu, SnapshotOf::Aggregations, sink)?;
            let Self { kernel, names, types, consumer, .. } = self;
            let mut told = Told { kernel, names };
            let mut world = World { descriptions: &mut told, symbols: kernel, types };
            let shown = consumer.snapshot(cpu, &taken.data, taken.drops, &mut world, sink);
            // What the kernel did not say is why it cannot be shown.
            kernel.check()?;
            shown?;
        }
        self.taken += 1;
        Ok(())
    }

    fn take_records(&mut self, sink: &mut dyn Sink) -> Result<Vec<Buffer>, TraceError> {
        let mut buffers = Vec::with_capacity(self.cpus.len());
        for index in 0..self.cpus.len() {
            let cpu = self.cpus[index];
            let Snapshot { data, drops, taken, .. } =
                self.snapshot(cpu, SnapshotOf::Records, sink)?;
            self.buffers.add(data.capacity() as u64).map_err(ClientError::from)?;
            buffers.push(Buffer { cpu, data, drops, taken });
        }
        Ok(buffers)
    }

    fn show_records(
        &mut self,
        buffers: Vec<Buffer>,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let ends = Ends { began: self.began.take(), ended: self.ended };
        let Self { kernel, names, types, consumer, schedule, .. } = self;
        let mut told = Told { kernel, names };
        let mut world = World { descriptions: &mut told, symbols: kernel, types };
        let shown = match consumer.settings().options.get(OptionId::Temporal) {
            UNSET => Schedule::in_turn(consumer, &buffers, ends, &mut world, sink),
            _ => schedule.in_time(consumer, buffers, ends.ended.is_some(), &mut world, sink),
        };
        self.buffers.set(self.schedule.waiting()).map_err(ClientError::from)?;
        self.kernel.check()?;
        Ok(shown?)
    }

    /// Gives the sink what nobody has printed, and lets the kernel go. Returns what the last `exit` said.
    ///
    /// # Errors
    /// It cannot be shown, or the kernel failed.
    pub fn finish(mut self, sink: &mut dyn Sink) -> Result<Option<u32>, TraceError> {
        let mut told = Told { kernel: &self.kernel, names: &self.names };
        let world = World { descriptions: &mut told, symbols: &self.kernel, types: &self.types };
        self.consumer.finish(&world, sink)?;
        sink.flush()?;
        if !self.forsaken {
            self.kernel.ask(Client::close)?;
        }
        Ok(self.consumer.exit_status())
    }
}

fn status(run: &Run) -> Status {
    Status {
        dynamic_drops: run.dynamic_drops,
        dynamic_drops_rinsing: run.dynamic_drops_rinsing,
        dynamic_drops_dirty: run.dynamic_drops_dirty,
        speculation_drops: run.speculation_drops,
        speculations_busy: run.speculations_busy,
        speculations_unavailable: run.speculations_unavailable,
        errors: run.errors,
        filled: run.filled,
        stack_string_overflows: run.stack_string_overflows,
        double_errors: run.double_errors,
        killed: run.killed.into(),
        exiting: run.exiting.into(),
        pad: [0; 6],
    }
}
