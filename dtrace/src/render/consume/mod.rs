//! From buffers of kernels to a [`Sink`]: records in order, aggregations merged, and what programs do with
//! them done (`dt_consume_cpu`, dt_consume.c).

mod action;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::record::{RecordDesc, RecordHeader, Status};
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::types::{TypeId, Types};
use jiff::tz::TimeZone;

use crate::budget::Budget;
use crate::render::aggregate::{Aggregations, Entry};
use crate::render::bits::u64_of;
use crate::render::compiled::Compiled;
use crate::render::description::{Catalog, Datum, Descriptions, Known};
use crate::render::error::{RenderError, Result};
use crate::render::flow::{Depth, Flow};
use crate::render::message::{DropKind, Drops, ErrorKind, ProbeError};
use crate::render::sink::{Firing, Sink};
use crate::render::symbol::Symbols;
use crate::render::value::Argument;
use crate::render::view::View;

/// What is asked while buffers are consumed.
pub struct World<'a> {
    /// The kernel's descriptions of what is in them.
    pub descriptions: &'a mut dyn Descriptions,
    /// What stands at addresses.
    pub symbols: &'a dyn Symbols,
    /// The compiler's types.
    pub types: &'a Types,
}

impl std::fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// How things are shown, whatever they are.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The options.
    pub options: Options,
    /// The time zone of `%Y` and `%T`.
    pub zone: TimeZone,
    /// Rust's names are shown as they are in the file.
    pub raw_names: bool,
    /// Bars have a colour: for terminals.
    pub color: bool,
    /// The kernel's name, where there are several.
    pub host: Option<String>,
    /// Programs say themselves where that is a key of what they aggregate.
    pub names_host: bool,
    /// Data go to a terminal, which is not to obey them.
    pub terminal: bool,
    /// The memory that what is shown may take.
    pub budget: Budget,
}

impl Settings {
    /// With the time zone of the machine.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            zone: TimeZone::system(),
            raw_names: false,
            color: false,
            host: None,
            names_host: false,
            terminal: false,
            budget: Budget::default(),
        }
    }

    /// What the first key of aggregations is, beside those that programs say.
    fn host_key(&self) -> Option<&str> {
        self.host.as_deref().filter(|_| !self.names_host)
    }

    /// Whether what this kernel aggregates is added to that of others.
    const fn is_added_up(&self) -> bool {
        self.host.is_some() && self.names_host
    }

    fn view<'a>(&'a self, world: &'a World<'_>) -> View<'a> {
        View {
            options: &self.options,
            symbols: world.symbols,
            types: world.types,
            zone: &self.zone,
            raw_names: self.raw_names,
            color: self.color,
            terminal: self.terminal,
            host: self.host.as_deref(),
        }
    }
}

/// Consumes what a kernel has recorded.
#[derive(Debug)]
pub struct Consumer {
    settings: Settings,
    catalog: Catalog,
    aggregations: Aggregations,
    /// By name, the type of what `print` shows, if it is known.
    types: HashMap<Rc<str>, Option<TypeId>>,
    /// What programs of others asked for, and of which it was said that it is not done.
    said: HashSet<&'static str>,
    /// Aggregations that were printed and need not be at the end.
    printed: HashSet<u32>,
    depth: Depth,
    last_epid: u32,
    status: Option<Status>,
    exit: Option<u32>,
}

/// A record in its buffer.
struct Record<'a> {
    cpu: u32,
    epid: u32,
    eprobe: &'a Known,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn data(&self, desc: &RecordDesc) -> Result<&'a [u8]> {
        let begin = desc.offset as usize;
        let end = begin.saturating_add(desc.size as usize);
        self.bytes.get(begin..end).ok_or(RenderError::Offset)
    }

    fn arguments(&self, data: &[Datum]) -> Result<Vec<Argument<'a>>> {
        let argument = |Datum { desc, .. }: &Datum| {
            let action = Action::from_number(desc.action).unwrap_or(Action::DifExpr);
            Ok(Argument { action, argument: desc.arg, data: self.data(desc)? })
        };
        data.iter().map(argument).collect()
    }
}

/// Where in a record the consumer is.
#[derive(Clone, Copy)]
struct Here<'a> {
    record: &'a Record<'a>,
    firing: &'a Firing<'a>,
    /// The data that are left.
    rest: &'a [Datum],
}

impl Consumer {
    /// A consumer of what others have enabled: it is shown by the kernel's descriptions, and nothing is done that it asks
    /// for.
    pub fn new(settings: Settings) -> Self {
        Self::with(settings, None)
    }

    /// A consumer of what these programs record, which were compiled in this run and decide what it means.
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

    /// How things are shown by now: programs change it with `setopt`.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same, to be changed before anything is shown.
    pub const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// The surroundings of what is shown: for pictures of what has been aggregated.
    pub fn view<'a>(&'a self, world: &'a World<'_>) -> View<'a> {
        self.settings.view(world)
    }

    /// What has been aggregated so far.
    pub const fn aggregations(&self) -> &Aggregations {
        &self.aggregations
    }

    /// What the last `exit` gave.
    pub const fn exit_status(&self) -> Option<u32> {
        self.exit
    }

    /// A CPU's aggregation buffer, and what was dropped on its way.
    ///
    /// # Errors
    ///
    /// It is not what the descriptions say.
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

    /// Says what a CPU has dropped.
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

    /// What a kernel says of everybody's drops.
    ///
    /// # Errors
    ///
    /// The kernel has given this consumer up, or it cannot be written.
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

    /// The run is over: what nobody printed is given to the sink.
    ///
    /// # Errors
    ///
    /// It cannot be shown or written.
    pub fn finish(&mut self, world: &World<'_>, sink: &mut dyn Sink) -> Result {
        let unprinted = |entry: &Entry| !self.printed.contains(&entry.description.id);
        let table = self.aggregations.table(&self.settings.options, unprinted);
        sink.finish(&table, &self.settings.view(world))
    }

    /// Adds all elements, or those that nobody printed, to aggregations of several kernels.
    pub(crate) fn add_to(&self, all: &mut Aggregations, unprinted: bool) {
        let wanted = |entry: &Entry| !unprinted || !self.printed.contains(&entry.description.id);
        all.absorb(self.settings.host_key(), &self.aggregations, wanted);
    }

    /// Each buffer's records begin at no depth of their own, unless all are in one order.
    pub(in crate::render) fn restart_flow(&mut self) {
        self.depth = Depth::default();
    }

    /// Consumes the first record of a buffer, if `wanted`; gives how many bytes it and what stood before
    /// it are, or `None` if there is no more.
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

    /// A record of the library's own ERROR clause (`dt_handle_err`, dt_handle.c): number of the enabled
    /// probe, action, offset, fault, address.
    fn fault(&mut self, record: &Record<'_>, world: &mut World<'_>, sink: &mut dyn Sink) -> Result {
        let numbers = record.arguments(&record.eprobe.data)?;
        let numbers: Vec<u64> = numbers.iter().map(|number| u64_of(number.data)).collect();
        let [epid, action, offset, fault, address] = numbers[..] else {
            return Err(RenderError::Mismatch);
        };
        let epid = epid as u32;
        let eprobe = self.catalog.eprobe(world.descriptions, epid)?;
        let (action, offset) = (action as i32, offset as i32);
        let what = ErrorKind::Fault { fault, action, offset, address };
        let error = ProbeError { epid, probe: &eprobe.probe, cpu: record.cpu, what };
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
                    let what = RenderError::Reopen { file, why: strip_code(&why) }.to_string();
                    self.complain(&firing, what, world, sink)?;
                    self.statement(rest)
                }
                taken => taken?,
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        sink.end(&firing, &self.settings.view(world))
    }

    /// How many records the first one's statement has.
    fn statement(&self, rest: &[Datum]) -> usize {
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
        let error = ProbeError { epid, probe, cpu, what: ErrorKind::Library(text) };
        sink.error(&error, &self.settings.view(world))
    }

    /// Whether a record is an entry that is not one more of the last, or a return of which the next is
    /// not one more.
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

/// Where the next record of a buffer begins, behind what aligns it; `None` if there is no more.
pub(in crate::render) fn filler(buffer: &[u8]) -> Option<usize> {
    let mut words = buffer.chunks_exact(4);
    words.position(|word| word.iter().any(|&byte| byte != 0)).map(|word| word * 4)
}

/// The system's words for an error, without Rust's own number behind them.
fn strip_code(why: &std::io::Error) -> std::io::Error {
    let text = why.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    std::io::Error::other(text.to_string())
}
