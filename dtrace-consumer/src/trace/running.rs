//! A running trace: reads the records and aggregations of a kernel, and shows them, until the trace is over.

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
use crate::kernel::{DescriptionSource, Kernel};
use crate::render::{Aggregations, Buffer, Consumer, Ends, Schedule, Sink, View, World};

/// Longest time between two status requests. dtrace(1) waits up to a second, so it notices the end of a program with that delay.
const BEAT: Duration = Duration::from_millis(20);

/// The number of kernels up to which [`BEAT`] applies. With more kernels, the time is longer, up to the next constant.
const GROUP: usize = 8;
const SLOWEST_BEAT: Duration = Duration::from_millis(500);
/// Longest time between two status requests while buffers fill quickly; and the time for which that is assumed after a buffer was
/// half full.
const QUICK_BEAT: Duration = Duration::from_millis(2);
const QUICK: Duration = Duration::from_secs(2);

/// Time between two checks of the timers. A timer counts as late after two seconds.
const TIMERS: Duration = Duration::from_secs(3);

/// Shortest time between two searches for new libraries; and the part of the time that the searches take at most, as its reciprocal.
const LIBRARIES: Duration = Duration::from_millis(100);
const SHARE: u32 = 100;

/// The options for sizes of buffers, as messages name them.
const BUFFERS: [(OptionId, &str); 4] = [
    (OptionId::Bufsize, "buffer size"),
    (OptionId::Aggsize, "aggregation size"),
    (OptionId::Specsize, "speculation size"),
    (OptionId::Dynvarsize, "dynamic variable size"),
];
/// A difference of less than this many bytes is not reported.
const WORD: i64 = 8;

/// Returns a number of bytes in the largest unit of which it is a multiple.
fn amount(bytes: i64) -> String {
    let units = [(60, 'e'), (50, 'p'), (40, 't'), (30, 'g'), (20, 'm'), (10, 'k')];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift != 0);
    match unit.filter(|(shift, _)| bytes & ((1_i64 << shift) - 1) == 0) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// The time of the last of a series of regular events.
#[derive(Clone, Copy, Debug, Default)]
struct Timer(Option<Instant>);

impl Timer {
    /// Returns the time left until the next event.
    fn left(self, rate: Duration) -> Duration {
        self.0.map_or(Duration::ZERO, |last| rate.saturating_sub(last.elapsed()))
    }

    /// Returns whether the event is due, and if so starts the time until the next one. `at_once` makes it due.
    fn now(&mut self, rate: Duration, at_once: bool) -> bool {
        let due = at_once || self.left(rate).is_zero();
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

/// The look of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Bars of distributions have a colour.
    pub color: bool,
    /// The output goes to a terminal: control characters in data are escaped.
    pub terminal: bool,
}

/// Hits of a kernel that are neither records nor drops, because the kernel could not record them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unrecorded {
    reentered: u64,
    stray: u64,
}

impl Unrecorded {
    /// Returns the numbers of hits since the kernel started.
    pub(super) const fn of(status: &dtrace_protocol::Status) -> Self {
        Self { reentered: status.reentered, stray: status.stray }
    }

    /// Returns a message for each kind of hits that were counted since `before`.
    fn messages(self, before: Self) -> impl Iterator<Item = String> {
        let reentered = self.reentered.saturating_sub(before.reentered);
        let stray = self.stray.saturating_sub(before.stray);
        let kinds = [
            (reentered, "the CPU was recording another hit"),
            (stray, "no CPU number or slot was free, or the stack was too small"),
        ];
        kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, why)| {
            let hits = if count == 1 { "hit was" } else { "hits were" };
            format!("{count} {hits} not recorded: {why}\n")
        })
    }
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
    /// The unreported drops of each CPU. Buffers may be read more often, but drops are reported once per `switchrate`.
    drops: BTreeMap<u32, u64>,
    drops_reported: Timer,
    /// Whether the connection is lost: then the kernel gets no more requests.
    abandoned: bool,
    /// The unrecorded hits when the run began.
    unrecorded: Unrecorded,
    /// The time of the next check of the timers; `None` if no program enables one, or a message has reported them.
    timers: Option<Instant>,
    /// The last search for new libraries.
    libraries: Timer,
    /// The time between two searches.
    search: Duration,
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
            drops: BTreeMap::new(),
            drops_reported: Timer::default(),
            abandoned: false,
            unrecorded: Unrecorded::default(),
            timers: None,
            libraries: Timer::default(),
            search: LIBRARIES,
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
        self.timers = Some(Instant::now() + TIMERS);
    }

    /// Reports once that the kernel does not drive its timers, or does not sample all threads.
    fn report_timers(&mut self, sink: &mut dyn Sink) -> Result<(), TraceError> {
        if self.timers.is_none_or(|next| Instant::now() < next) {
            return Ok(());
        }
        self.check_timers();
        let status = self.kernel.ask(Client::status)?;
        let (late, unsampled) = (status.late_timers, status.unsampled_threads);
        if late != 0 {
            self.timers = None;
            sink.message(&format!(
                "{late} of the enabled timers do not fire, or not on every CPU: the kernel does not call tick of sdt-framework on each CPU; \
                 with a one-shot timer, it has to implement timers_changed\n"
            ))?;
        }
        if unsampled != 0 {
            self.timers = None;
            sink.message(&format!(
                "profile-N does not sample {unsampled} of the threads: they block its signal, have a seccomp filter of their own, or get no timer from the system\n"
            ))?;
        }
        Ok(())
    }

    /// Traces functions of libraries that the process has loaded since the last search.
    fn trace_new_libraries(&mut self) -> Result<(), TraceError> {
        if !self.libraries.now(self.search, false) {
            return Ok(());
        }
        let begin = Instant::now();
        self.kernel.trace_new_libraries()?;
        self.search = LIBRARIES.max(begin.elapsed().saturating_mul(SHARE));
        Ok(())
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

    fn status_rate(&self) -> Duration {
        let is_quick = self.half_filled.is_some_and(|last| last.elapsed() < QUICK);
        let rate = self.rate(OptionId::Statusrate).min(BEAT);
        match is_quick {
            true => rate.min(QUICK_BEAT),
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

    /// Returns a message for each buffer that is smaller than the user requested, with its size (`go`, dtrace.c). dtrace(1) reports
    /// its own defaults, too.
    ///
    /// # Errors
    /// The kernel or the connection failed.
    pub(crate) fn lowered(&self) -> Result<Vec<String>, ClientError> {
        let (options, defaults) = (self.options(), Options::default());
        let requested = BUFFERS.map(|(id, name)| {
            let value = Some(options.get(id)).filter(|value| *value != UNSET);
            (id, name, value.filter(|value| defaults.number(id) != Some(*value)))
        });
        if requested.iter().all(|(.., value)| value.is_none()) {
            return Ok(Vec::new());
        }
        let made = self.kernel.ask(Client::options)?;
        let lowered = requested.into_iter().filter_map(|(id, name, value)| {
            let (_, size) = made.iter().find(|(option, _)| *option == id.number())?;
            (*size > 0 && *size < value? - WORD)
                .then(|| format!("{name} lowered to {}", amount(*size)))
        });
        Ok(lowered.collect())
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
            self.report_timers(sink)?;
            self.trace_new_libraries()?;
        }
        // Buffers with the policies ring and fill are read at the end.
        if !over && self.policy().is_some_and(|policy| policy != BufPolicy::Switch) {
            return Ok(false);
        }
        let (aggrate, switchrate) = (self.rate(OptionId::Aggrate), self.rate(OptionId::Switchrate));
        // Records are read first, so that an aggregation which a record prints contains everything from before the record.
        if is_half_filled {
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
            for message in unrecorded.messages(self.unrecorded) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hits_of_this_run_are_reported() {
        let before = Unrecorded { reentered: 5, stray: 7 };
        let messages = |now: Unrecorded| now.messages(before).collect::<Vec<_>>();
        assert!(messages(before).is_empty());
        // The kernel has started again.
        assert!(messages(Unrecorded::default()).is_empty());
        let now = Unrecorded { reentered: 6, stray: 9 };
        let [one, two] = &messages(now)[..] else { panic!("{:?}", messages(now)) };
        assert!(one.starts_with("1 hit was not recorded: the CPU"), "{one}");
        assert!(two.starts_with("2 hits were not recorded: no"), "{two}");
    }

    #[test]
    fn sizes_are_as_dtrace_prints_them() {
        for (bytes, text) in [
            (65536, "64k"),
            (4 << 20, "4m"),
            (3 << 19, "1572864 bytes"),
            (1 << 30, "1g"),
            (1000, "1000 bytes"),
            (2048, "2k"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
}
