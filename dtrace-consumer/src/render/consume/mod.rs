//! Passes the content of a kernel's buffers to a [`Sink`]: records in order, merged aggregations; performs the consumer's actions
//! (`dt_consume_cpu`, dt_consume.c).

mod action;
pub(super) mod schedule;
pub(super) mod setopt;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::record::{RecordDesc, RecordHeader, Status};
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::types::{TypeId, Types};
use jiff::tz::TimeZone;
use smallvec::SmallVec;

use crate::budget::Budget;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::store::Aggregations;
use crate::render::data::argument::Argument;
use crate::render::data::bits::u64_of;
use crate::render::data::error::{RenderError, Result};
use crate::render::data::symbol::Symbols;
use crate::render::data::view::View;
use crate::render::record::catalog::Catalog;
use crate::render::record::compiled::Compiled;
use crate::render::record::description::{Descriptions, KnownDatum, KnownProbe};
use crate::render::sink::flow::{Depth, Flow};
use crate::render::sink::message::{DropKind, Drops, ErrorKind, ProbeError};
use crate::render::sink::{Firing, Sink};
use crate::system::reason;

/// The sources of information that are needed to consume buffers.
pub struct World<'a> {
    /// The kernel's descriptions of records and aggregations.
    pub descriptions: &'a mut dyn Descriptions,
    /// Symbols by address.
    pub symbols: &'a dyn Symbols,
    /// The compiler's types.
    pub types: &'a Types,
}

impl std::fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// Settings of the output.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The options.
    pub options: Options,
    /// The time zone of `%Y` and `%T`.
    pub zone: TimeZone,
    /// Whether bars have a colour.
    pub color: bool,
    /// The kernel's name, if there are several kernels.
    pub host: Option<String>,
    /// Whether a program uses the kernel's name itself, so that it is no automatic key of aggregations.
    pub names_host: bool,
    /// Whether the output goes to a terminal: control characters in data are escaped.
    pub terminal: bool,
    /// The budget of memory for this kernel.
    pub budget: Budget,
}

impl Settings {
    /// Returns settings with these options and the time zone of the machine.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            zone: TimeZone::system(),
            color: false,
            host: None,
            names_host: false,
            terminal: false,
            budget: Budget::default(),
        }
    }

    /// Returns the automatic first key of aggregations.
    fn host_key(&self) -> Option<&str> {
        self.host.as_deref().filter(|_| !self.names_host)
    }

    /// Returns whether the aggregations of this kernel are added to those of others.
    const fn is_added_up(&self) -> bool {
        self.host.is_some() && self.names_host
    }

    fn view<'a>(&'a self, world: &'a World<'_>) -> View<'a> {
        View {
            options: &self.options,
            symbols: world.symbols,
            types: world.types,
            zone: &self.zone,
            color: self.color,
            terminal: self.terminal,
            host: self.host.as_deref(),
        }
    }
}

/// Consumes the records and aggregations of a kernel.
#[derive(Debug)]
pub struct Consumer {
    settings: Settings,
    catalog: Catalog,
    aggregations: Aggregations,
    /// Types that `print` shows, by name; `None` for unknown ones.
    types: HashMap<Rc<str>, Option<TypeId>>,
    /// Functions of programs of another run that a message has reported as not performed.
    said: HashSet<&'static str>,
    /// Aggregations that programs have printed, and that are not printed at the end.
    printed: HashSet<u32>,
    depth: Depth,
    last_epid: u32,
    status: Option<Status>,
    exit: Option<u32>,
}

/// The arguments of a statement. Most statements have few.
type Arguments<'n> = SmallVec<[Argument<'n>; 6]>;

/// A record in its buffer.
struct Record<'a> {
    cpu: u32,
    epid: u32,
    eprobe: &'a KnownProbe,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn data(&self, desc: &RecordDesc) -> Result<&'a [u8]> {
        let begin = desc.offset as usize;
        let end = begin.saturating_add(desc.size as usize);
        match self.bytes.get(begin..end) {
            Some(data) => Ok(data),
            None => Err(RenderError::Offset),
        }
    }

    /// Adds the arguments of these data to `arguments`. To return them would copy them, which takes longer.
    fn arguments<'n>(&self, data: &'n [KnownDatum], arguments: &mut Arguments<'n>) -> Result
    where
        'a: 'n,
    {
        for KnownDatum { desc, name, builtin, .. } in data {
            let action = Action::from_number(desc.action).unwrap_or(Action::DifExpr);
            let data = self.data(desc)?;
            let (name, variable) = (name.as_deref(), *builtin);
            arguments.push(Argument { action, argument: desc.arg, name, variable, data });
        }
        Ok(())
    }
}

/// The position of the consumer in a record.
#[derive(Clone, Copy)]
struct Here<'a> {
    record: &'a Record<'a>,
    firing: &'a Firing<'a>,
    /// The remaining data.
    rest: &'a [KnownDatum],
}

impl Consumer {
    /// Creates a consumer of records whose programs another run compiled: the kernel's descriptions decide what they mean, and no
    /// action is performed.
    pub fn new(settings: Settings) -> Self {
        Self::with(settings, None)
    }

    /// Creates a consumer of the records of these programs, which this run compiled and which decide what the records mean.
    pub fn of(compiled: Compiled, settings: Settings) -> Self {
        Self::with(settings, Some(compiled))
    }

    fn with(settings: Settings, compiled: Option<Compiled>) -> Self {
        let aggregations = Aggregations::within(&settings.budget);
        Self {
            settings,
            catalog: Catalog::new(compiled),
            aggregations,
            types: HashMap::new(),
            said: HashSet::new(),
            printed: HashSet::new(),
            depth: Depth::default(),
            last_epid: 0,
            status: None,
            exit: None,
        }
    }

    /// Returns the settings, with the changes that programs have made by `setopt`.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the settings for changes before anything is shown.
    pub const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Returns the view that is needed to show aggregations.
    pub fn view<'a>(&'a self, world: &'a World<'_>) -> View<'a> {
        self.settings.view(world)
    }

    /// Returns the aggregations so far.
    pub const fn aggregations(&self) -> &Aggregations {
        &self.aggregations
    }

    /// Returns the status of the last `exit`.
    pub const fn exit_status(&self) -> Option<u32> {
        self.exit
    }

    /// Adds the content of a CPU's aggregation buffer, and reports its drops.
    ///
    /// # Errors
    /// The buffer does not match the descriptions, or writing failed.
    pub fn snapshot(
        &mut self,
        cpu: u32,
        buffer: &[u8],
        drops: u64,
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result {
        self.drops(DropKind::Aggregation(cpu), drops, world, sink)?;
        let Self { aggregations, catalog, .. } = self;
        aggregations.snapshot(buffer, catalog, world.descriptions, world.symbols)
    }

    /// Reports drops of a CPU.
    pub(in crate::render) fn drops(
        &self,
        kind: DropKind,
        count: u64,
        world: &World<'_>,
        sink: &mut dyn Sink,
    ) -> Result {
        if count == 0 {
            return Ok(());
        }
        sink.drops(&Drops { kind, count, total: 0 }, &self.settings.view(world))
    }

    /// Reports the drops since the last status.
    ///
    /// # Errors
    /// The kernel has closed this consumer's session, or writing failed.
    pub fn status(&mut self, status: Status, world: &World<'_>, sink: &mut dyn Sink) -> Result {
        let empty = Status {
            dynamic_drops: 0,
            dynamic_drops_rinsing: 0,
            dynamic_drops_dirty: 0,
            speculation_drops: 0,
            speculations_busy: 0,
            speculations_unavailable: 0,
            errors: 0,
            filled: 0,
            stack_string_overflows: 0,
            double_errors: 0,
            killed: 0,
            exiting: 0,
            pad: [0; 6],
        };
        let old = self.status.replace(status).unwrap_or(empty);
        if status.killed != 0 && old.killed == 0 {
            return Err(RenderError::Killed);
        }
        for drops in Drops::between(&old, &status) {
            sink.drops(&drops, &self.settings.view(world))?;
        }
        Ok(())
    }

    /// Passes the aggregations that no program has printed to the sink, at the end of the run.
    ///
    /// # Errors
    /// They cannot be shown, or writing failed.
    pub fn finish(&mut self, world: &World<'_>, sink: &mut dyn Sink) -> Result {
        let unprinted = |entry: &Entry| !self.printed.contains(&entry.description.id);
        let table = self.aggregations.table(&self.settings.options, unprinted);
        sink.finish(&table, &self.settings.view(world))
    }

    /// Adds all elements, or those that no program has printed, to the aggregations of several kernels.
    pub(crate) fn add_to(&self, all: &mut Aggregations, unprinted: bool) {
        let wanted = |entry: &Entry| !unprinted || !self.printed.contains(&entry.description.id);
        all.absorb(self.settings.host_key(), &self.aggregations, wanted);
    }

    /// Sets the depth of `flowindent` to 0, for the first record of another buffer.
    pub(in crate::render) fn restart_flow(&mut self) {
        self.depth = Depth::default();
    }

    /// Consumes the first record of a buffer; `wanted` decides by its probe whether to show it. Returns the number of
    /// bytes up to the end of the record, or `None` if there is no record.
    pub(in crate::render) fn one(
        &mut self,
        cpu: u32,
        buffer: &[u8],
        wanted: impl Fn(&Description) -> bool,
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<usize>> {
        let Some(filler) = filler(buffer) else { return Ok(None) };
        let buffer = &buffer[filler..];
        let epid = u64_of(&buffer[..4]) as u32;
        let eprobe = self.catalog.eprobe(world.descriptions, epid)?;
        if eprobe.size < 4 || eprobe.size > buffer.len() {
            return Err(RenderError::Offset);
        }
        let (bytes, behind) = buffer.split_at(eprobe.size);
        if wanted(&eprobe.probe) {
            let record = Record { cpu, epid, eprobe: &eprobe, bytes };
            if eprobe.error {
                self.fault(&record, world, sink)?;
            } else {
                self.record(&record, behind, world, sink)?;
            }
        }
        self.last_epid = epid;
        Ok(Some(filler + eprobe.size))
    }

    /// Reports the fault in a record of the library's own ERROR clause (`dt_handle_err`, dt_handle.c). The record contains the
    /// number of the enabled probe, action, offset, fault, address.
    fn fault(&mut self, record: &Record<'_>, world: &mut World<'_>, sink: &mut dyn Sink) -> Result {
        let mut numbers = Arguments::new();
        record.arguments(&record.eprobe.data, &mut numbers)?;
        let numbers: Vec<u64> = numbers.iter().map(|number| u64_of(number.data)).collect();
        let [epid, action, offset, fault, address] = numbers[..] else {
            return Err(RenderError::Mismatch);
        };
        let epid = epid as u32;
        let eprobe = self.catalog.eprobe(world.descriptions, epid)?;
        let (action, offset) = (action as i32, offset as i32);
        let what = ErrorKind::Fault { fault, action, offset, address };
        let origin = eprobe.origins.as_ref().and_then(|origins| origins.find(action, offset));
        let error = ProbeError { epid, probe: &eprobe.probe, cpu: record.cpu, what, origin };
        sink.error(&error, &self.settings.view(world))
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        behind: &[u8],
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result {
        let flowing = self.settings.view(world).is_set(dtrace_abi::option::OptionId::Flowindent);
        let flow = if flowing { self.flow(record, behind, world)? } else { Flow::None };
        self.depth.before(flow);
        let mut reader = dtrace_abi::reader::Reader::new(record.bytes);
        let time = RecordHeader::read(&mut reader).map_or(0, |header| header.time());
        let indent = if flowing { self.depth.indent } else { 0 };
        let probe = &record.eprobe.probe;
        let firing = Firing { cpu: record.cpu, epid: record.epid, probe, time, flow, indent };
        sink.begin(&firing, &self.settings.view(world))?;
        self.depth.after(flow);
        let mut rest = &record.eprobe.data[..];
        let mut memory = None;
        while !rest.is_empty() {
            let here = Here { record, firing: &firing, rest };
            let taken = match self.actions(here, &mut memory, world, sink) {
                Err(RenderError::Reopen { file, why }) => {
                    let what =
                        RenderError::Reopen { file, why: std::io::Error::other(reason(&why)) }
                            .to_string();
                    self.complain(&firing, what, world, sink)?;
                    self.statement(rest)
                }
                taken => taken?,
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        sink.end(&firing, &self.settings.view(world))
    }

    /// Returns the number of data that belong to the same statement as the first datum.
    fn statement(&self, rest: &[KnownDatum]) -> usize {
        rest.iter().take_while(|datum| datum.desc.uarg == rest[0].desc.uarg).count()
    }

    fn complain(
        &self,
        firing: &Firing<'_>,
        text: String,
        world: &World<'_>,
        sink: &mut dyn Sink,
    ) -> Result {
        let Firing { epid, probe, cpu, .. } = *firing;
        let what = ErrorKind::Library(text);
        let error = ProbeError { epid, probe, cpu, what, origin: None };
        sink.error(&error, &self.settings.view(world))
    }

    /// Returns whether a record is indented as an entry or a return. Of several records of one entry, only the first
    /// counts; of several records of one return, only the last.
    fn flow(&mut self, record: &Record<'_>, behind: &[u8], world: &mut World<'_>) -> Result<Flow> {
        let probe = &record.eprobe.probe;
        let flow = Flow::of(probe);
        let other = match flow {
            Flow::None => return Ok(flow),
            Flow::Entry => self.last_epid,
            Flow::Return => filler(behind).map_or(0, |at| u64_of(&behind[at..at + 4]) as u32),
        };
        if other == 0 || other == record.epid {
            return Ok(flow);
        }
        let other = self.catalog.eprobe(world.descriptions, other)?;
        Ok(if other.probe.id == probe.id { Flow::None } else { flow })
    }
}

/// Returns the offset of the next record after padding; `None` if there is none.
pub(in crate::render) fn filler(buffer: &[u8]) -> Option<usize> {
    let mut words = buffer.chunks_exact(4);
    words.position(|word| word.iter().any(|&byte| byte != 0)).map(|word| word * 4)
}
