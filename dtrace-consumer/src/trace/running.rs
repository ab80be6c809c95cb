//! A running trace: reads the records and aggregations of a kernel, and shows them, until the trace is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dtrace_abi::option::{BufPolicy, OptionId, UNSET};
use dtrace_abi::record::Status;
use dtrace_compiler::options::Options;
use dtrace_compiler::types::Types;
use dtrace_protocol::{Run, SnapshotOf};

use super::libraries::LibrarySearch;
use super::timer::Timer;
use super::timer_check::TimerCheck;
use super::unrecorded::Unrecorded;
use super::{TraceError, lowered};
use crate::budget::{Share, Use};
use crate::client::{Client, ClientError, Snapshot};
use crate::kernel::{DescriptionSource, Kernel};
use crate::render::{Aggregations, Buffer, Consumer, Ends, Schedule, Sink, View, World};

/// Longest time between two status requests. dtrace(1) waits up to a second, so it notices the end of a program with that delay.
const BEAT: Duration = Duration::from_millis(20);

/// The number of kernels up to which [`BEAT`] applies. With more kernels, the time is longer, up to the next constant.
const GROUP: usize = 8;
const SLOWEST_BEAT: Duration = Duration::from_millis(500);
/// Shortest time between two status requests while buffers fill quickly, and the number of requests in the time in which a buffer
/// becomes half full. After a buffer was half full, `dtrace` assumes for the last of these times that buffers fill quickly.
const QUICK_BEAT: Duration = Duration::from_millis(2);
const QUICK_REQUESTS: u32 = 8;
const QUICK: Duration = Duration::from_secs(2);

/// The look of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Bars of distributions have a colour.
    pub color: bool,
    /// The output goes to a terminal: control characters in data are escaped.
    pub terminal: bool,
}

/// A running trace of one kernel.
#[derive(Debug)]
pub struct Running {
    kernel: Kernel,
    names: BTreeMap<u32, String>,
    types: Types,
    consumer: Consumer,
    schedule: Schedule,
    /// The memory of the record buffers that are read and not shown yet.
    buffers: Share,
    cpus: Vec<u32>,
    /// The CPU on which BEGIN fired, until the first buffers are read.
    began: Option<u32>,
    /// The CPU on which END fired.
    ended: Option<u32>,
    status: Timer,
    aggregate: Timer,
    /// Whether records can print or change aggregations, which are then read with them.
    is_aggregate_shown: bool,
    switch: Timer,
    /// The number of groups of [`GROUP`] kernels.
    groups: u32,
    /// When a status last reported a buffer that was half full.
    half_filled: Option<Instant>,
    /// The time between two status requests while buffers fill quickly.
    quick_beat: Duration,
    /// The unreported drops of each CPU. Buffers may be read more often, but drops are reported once per `switchrate`.
    drops: BTreeMap<u32, u64>,
    drops_reported: Timer,
    /// Whether the connection is lost: then the kernel gets no more requests.
    abandoned: bool,
    /// The unrecorded hits when the run began.
    unrecorded: Unrecorded,
    timers: TimerCheck,
    libraries: LibrarySearch,
}

impl Running {
    /// Creates a running trace of these CPUs. `began` is the CPU on which BEGIN fired; `None` for a claimed enabling.
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
            status: Timer::default(),
            aggregate: Timer::default(),
            is_aggregate_shown: false,
            switch: Timer::default(),
            groups: 1,
            // Assumes that the first records arrive quickly.
            half_filled: Some(Instant::now()),
            quick_beat: QUICK_BEAT,
            drops: BTreeMap::new(),
            drops_reported: Timer::default(),
            abandoned: false,
            unrecorded: Unrecorded::default(),
            timers: TimerCheck::default(),
            libraries: LibrarySearch::new(),
        }
    }

    /// Sets the unrecorded hits before this run.
    pub(super) fn count_unrecorded_from(&mut self, before: Unrecorded) {
        self.unrecorded = before;
    }

    /// Reads the aggregations whenever there are records, because a record can print or change them.
    pub(super) fn read_aggregations_with_records(&mut self) {
        self.is_aggregate_shown = true;
    }

    /// Checks from time to time whether the kernel drives its timers and samples its threads.
    pub(super) fn check_timers(&mut self) {
        self.timers.start();
    }

    /// Requests the status less often if there are many kernels, so that the consumer has the same work with any number.
    pub(crate) fn share_with(&mut self, kernels: usize) {
        self.groups = u32::try_from(kernels.div_ceil(GROUP)).unwrap_or(u32::MAX);
        if self.groups > 1 {
            self.half_filled = None;
        }
    }

    /// Sets whether bars have colours, and whether control characters in data are escaped.
    pub fn set_look(&mut self, Look { color, terminal }: Look) {
        let settings = self.consumer.settings_mut();
        (settings.color, settings.terminal) = (color, terminal);
    }

    /// Returns the time between two events that an option sets.
    fn rate(&self, option: OptionId) -> Duration {
        let rate = self.consumer.settings().options.number(option);
        Duration::from_nanos(rate.and_then(|rate| u64::try_from(rate).ok()).unwrap_or_default())
    }

    /// Returns whether buffers fill quickly.
    fn is_quick(&self) -> bool {
        self.half_filled.is_some_and(|last| last.elapsed() < QUICK)
    }

    fn status_rate(&self) -> Duration {
        let rate = self.rate(OptionId::Statusrate).min(BEAT);
        match self.is_quick() {
            true => rate.min(self.quick_beat),
            false => rate.saturating_mul(self.groups).min(SLOWEST_BEAT),
        }
    }

    /// Returns the time until [`work`](Self::work) has something to do.
    pub fn pause(&self) -> Duration {
        let aggregate = self.aggregate.left(self.rate(OptionId::Aggrate));
        let switch = self.switch.left(self.rate(OptionId::Switchrate));
        self.status.left(self.status_rate()).min(aggregate).min(switch)
    }

    /// Returns whether the kernel has stopped recording.
    pub const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns the aggregations as of the last read.
    pub const fn aggregations(&self) -> &Aggregations {
        self.consumer.aggregations()
    }

    /// Returns the kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the kernel's name, if there are several kernels.
    pub fn host(&self) -> Option<&str> {
        self.consumer.settings().host.as_deref()
    }

    /// Returns the options, with the changes that programs have made.
    pub(crate) const fn options(&self) -> &Options {
        &self.consumer.settings().options
    }

    /// Returns a message for each buffer that is smaller than the user requested.
    ///
    /// # Errors
    /// The kernel or the connection failed.
    pub fn lowered(&self) -> Result<Vec<String>, ClientError> {
        lowered::messages(self.options(), || self.kernel.ask(Client::options))
    }

    /// Returns the status of the last `exit`.
    pub(crate) const fn exit_status(&self) -> Option<u32> {
        self.consumer.exit_status()
    }

    /// Adds the aggregations to those of other kernels.
    pub(crate) fn add_all(&self, all: &mut Aggregations) {
        self.consumer.add_to(all, false);
    }

    /// Adds the aggregations that no program has printed to those of other kernels.
    pub(crate) fn add_unprinted(&self, all: &mut Aggregations) {
        self.consumer.add_to(all, true);
    }

    /// Ends the connection to the kernel.
    pub(crate) fn close(self) -> Result<(), ClientError> {
        self.kernel.ask(Client::close)
    }

    /// Calls `show` with the aggregations and the view that is needed to show them.
    pub fn view<R>(&self, show: impl FnOnce(&Aggregations, &View<'_>) -> R) -> R {
        let mut descriptions = DescriptionSource { kernel: &self.kernel, names: &self.names };
        let world =
            World { descriptions: &mut descriptions, symbols: &self.kernel, types: &self.types };
        show(self.consumer.aggregations(), &self.consumer.view(&world))
    }

    /// Returns whether the kernel ended the run itself: no program has called `exit`, and the policy of the buffers is not `fill`
    /// (under `fill`, a full buffer ends the run).
    pub fn was_ended(&self) -> bool {
        self.is_over() && self.consumer.exit_status().is_none() && !self.fills()
    }

    /// Sends the kernel no more requests: the connection is lost. [`finish`](Self::finish) shows the records read so far.
    pub fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Stops recording. `dtrace:::END` has fired when this returns; [`work`](Self::work) reads the last records.
    ///
    /// # Errors
    /// The kernel or the connection failed.
    pub fn stop(&mut self) -> Result<(), TraceError> {
        if self.ended.is_none() {
            self.ended = Some(self.kernel.ask(Client::stop)?);
        }
        Ok(())
    }

    /// Requests the kernel's status, reads its buffers, and passes their content to the sink, as far as each is due
    /// (`dtrace_work`, dt_work.c). Returns whether the trace is over and all buffers are read.
    ///
    /// # Errors
    /// The kernel or the connection failed, the kernel has closed this consumer's session, or a record cannot be shown.
    pub fn work(&mut self, sink: &mut dyn Sink) -> Result<bool, TraceError> {
        self.work_now(sink, false)
    }

    /// Does the same as [`work`](Self::work). If `at_once` is set, it reads all buffers, whether they are due or not.
    ///
    /// # Errors
    /// See [`work`](Self::work).
    pub fn work_now(&mut self, sink: &mut dyn Sink, at_once: bool) -> Result<bool, TraceError> {
        let rate = self.status_rate();
        let mut is_half_filled = false;
        if self.is_over() || self.status.now(rate, at_once) {
            let run = self.ask_status(sink)?;
            is_half_filled = run.half_filled != 0;
            if !self.is_over() && (run.exiting || self.fills() && run.filled != 0) {
                self.stop()?;
                self.ask_status(sink)?;
            }
        }
        let over = self.is_over();
        if !over {
            for message in self.timers.work(&self.kernel)? {
                sink.message(&message)?;
            }
            self.libraries.work(&self.kernel)?;
        }
        // Buffers with the policies ring and fill are read at the end.
        if !over && self.policy().is_some_and(|policy| policy != BufPolicy::Switch) {
            return Ok(false);
        }
        let (aggrate, switchrate) = (self.rate(OptionId::Aggrate), self.rate(OptionId::Switchrate));
        // Records are read first, so that an aggregation which a record prints contains everything from before the record.
        if is_half_filled {
            self.quick_beat = match self.is_quick() {
                true => (self.switch.elapsed() / QUICK_REQUESTS).clamp(QUICK_BEAT, BEAT),
                // The buffer may have been empty until now.
                false => QUICK_BEAT,
            };
            self.half_filled = Some(Instant::now());
        }
        let records = match self.switch.now(switchrate, over || at_once || is_half_filled) {
            true => {
                let mut records = self.take_records(sink)?;
                let is_due = self.drops_reported.now(switchrate, over || at_once);
                self.hold_drops(&mut records, is_due);
                Some(records)
            }
            false => None,
        };
        let has_records = |buffers: &Vec<Buffer>| buffers.iter().any(|of| !of.data.is_empty());
        let is_shown = self.is_aggregate_shown && records.as_ref().is_some_and(has_records);
        let aggregated = match self.aggregate.now(aggrate, over || at_once || is_shown) {
            true => self.take_aggregations(sink),
            false => Ok(()),
        };
        // If the connection failed during the second read, dtrace has the records already and can show them.
        let shown = records.map_or(Ok(()), |records| self.show_records(records, sink));
        aggregated.and(shown)?;
        sink.flush()?;
        // A request that failed while records were shown.
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

    /// Requests the status of the run, and reports new drops.
    fn ask_status(&mut self, sink: &mut dyn Sink) -> Result<Run, TraceError> {
        let run = self.kernel.ask(Client::run)?;
        let Self { kernel, names, types, consumer, .. } = self;
        let mut descriptions = DescriptionSource { kernel, names };
        let world = World { descriptions: &mut descriptions, symbols: kernel, types };
        consumer.status(status(&run), &world, sink)?;
        Ok(run)
    }

    /// Reads a CPU's buffer. If the connection damaged it, prints a message and returns an empty buffer.
    fn snapshot(
        &self,
        cpu: u32,
        buffer: SnapshotOf,
        sink: &mut dyn Sink,
    ) -> Result<Snapshot, TraceError> {
        match self.kernel.ask(|client| client.snapshot(cpu, buffer)) {
            Err(ClientError::Damaged) => {
                // dtrace(1) has no connection, and no such message.
                sink.message("1 answer was damaged on the connection: records may be missing\n")?;
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
            let mut descriptions = DescriptionSource { kernel, names };
            let mut world = World { descriptions: &mut descriptions, symbols: kernel, types };
            let shown = consumer.snapshot(cpu, &taken.data, taken.drops, &mut world, sink);
            // A failed request for a description is the cause of an error in showing.
            kernel.check()?;
            shown?;
        }
        let Self { kernel, names, types, consumer, .. } = self;
        let mut descriptions = DescriptionSource { kernel, names };
        let world = World { descriptions: &mut descriptions, symbols: kernel, types };
        Ok(sink.sample(consumer.aggregations(), &consumer.view(&world))?)
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

    /// Collects the drops of these buffers for a later message. If a message `is_due`, adds the collected drops to the
    /// buffers.
    fn hold_drops(&mut self, records: &mut [Buffer], is_due: bool) {
        for Buffer { cpu, drops, .. } in records {
            let held = self.drops.entry(*cpu).or_default();
            *held = held.saturating_add(std::mem::take(drops));
            if is_due {
                *drops = std::mem::take(held);
            }
        }
    }

    fn show_records(
        &mut self,
        buffers: Vec<Buffer>,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let ends = Ends { began: self.began.take(), ended: self.ended };
        let Self { kernel, names, types, consumer, schedule, .. } = self;
        let mut descriptions = DescriptionSource { kernel, names };
        let mut world = World { descriptions: &mut descriptions, symbols: kernel, types };
        let shown = match consumer.settings().options.get(OptionId::Temporal) {
            UNSET => Schedule::in_turn(consumer, &buffers, ends, &mut world, sink),
            _ => schedule.in_time(consumer, buffers, ends.ended.is_some(), &mut world, sink),
        };
        self.buffers.set(self.schedule.waiting()).map_err(ClientError::from)?;
        self.kernel.check()?;
        Ok(shown?)
    }

    /// Passes the aggregations that no program has printed to the sink, and ends the connection. Returns the status of the last
    /// `exit`.
    ///
    /// # Errors
    /// They cannot be shown, or the kernel or the connection failed.
    pub fn finish(mut self, sink: &mut dyn Sink) -> Result<Option<u32>, TraceError> {
        let mut descriptions = DescriptionSource { kernel: &self.kernel, names: &self.names };
        let world =
            World { descriptions: &mut descriptions, symbols: &self.kernel, types: &self.types };
        let completed = sink.complete(self.consumer.aggregations(), &self.consumer.view(&world));
        self.consumer.finish(&world, sink)?;
        for message in self.kernel.process_messages() {
            sink.message(&format!("{message}\n"))?;
        }
        if !self.abandoned {
            let unrecorded = Unrecorded::of(&self.kernel.ask(Client::status)?);
            for message in unrecorded.messages(self.unrecorded, self.kernel.is_process()) {
                sink.message(&message)?;
            }
        }
        sink.flush()?;
        if !self.abandoned {
            self.kernel.ask(Client::close)?;
        }
        completed?;
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
