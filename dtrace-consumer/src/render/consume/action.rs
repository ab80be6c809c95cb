//! Processes the datum of each action in a record, and performs the consumer's actions.

use dtrace_abi::action::{Action, LibAction};
use dtrace_compiler::types::TypeId;

use super::{Arguments, Consumer, Here, Record, World};
use crate::escape;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::store::Aggregations;
use crate::render::aggregate::table::Table;
use crate::render::consume::setopt;
use crate::render::data::argument::Argument;
use crate::render::data::bits::{signed, u64_of, unsigned, until_zero};
use crate::render::data::error::Contradiction;
use crate::render::data::error::{RenderError, Result};
use crate::render::data::format::Format;
use crate::render::data::place::Place;
use crate::render::record::description;
use crate::render::record::effect::{Permit, Request};
use crate::render::sink::{Datum, Firing, Sink};

/// The file name into which the compiler translates `freopen("")` (`DT_FREOPEN_RESTORE`, dt_impl.h).
const RESTORE: &[u8] = b".";

impl Consumer {
    /// Performs the action of the first of these data. Returns the number of data that it has used.
    pub(super) fn actions(
        &mut self,
        here: Here<'_>,
        memory: &mut Option<u64>,
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result<usize> {
        let Here { record, firing, rest } = here;
        let description::KnownDatum { desc, format, printed, permit, name, builtin, .. } = &rest[0];
        let data = record.data(desc)?;
        let (name, variable) = (name.as_deref(), *builtin);
        let value = Argument { name, variable, ..Argument::value(data) };
        let action = Action::from_number(desc.action);
        let mut put = |consumer: &Self, datum: Datum<'_>| {
            sink.datum(firing, &datum, &consumer.settings.view(world))
        };
        if let Some(place) = action.and_then(|action| Place::read(action, desc.arg, data)) {
            put(self, Datum::Place(place))?;
            return Ok(1);
        }
        match action {
            Some(Action::LibAct) => {
                return self.library(here, world, sink);
            }
            Some(Action::Exit) => {
                let status = u64_of(data) as u32;
                // Programs of another run do not decide how this run ends.
                if permit.is_some_and(Permit::is_exit) {
                    self.exit = Some(status);
                }
                put(self, Datum::Exit(status))?;
            }
            Some(Action::TracememDynsize) => *memory = unsigned(data),
            Some(Action::Tracemem) => {
                let size = memory.take().filter(|&size| size != 0).unwrap_or(u64::MAX);
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                // As in libdtrace, 0 and a size above the maximum stand for the maximum.
                put(self, Datum::Memory(Action::Tracemem, data.get(..size).unwrap_or(data)))?;
            }
            Some(Action::Printm) => {
                let (size, bytes) = data.split_at_checked(8).ok_or(RenderError::Mismatch)?;
                let size = usize::try_from(u64_of(size)).unwrap_or(usize::MAX);
                put(self, Datum::Memory(Action::Printm, bytes.get(..size).unwrap_or(bytes)))?;
            }
            Some(Action::Printa) => return self.printa(here, world, sink),
            Some(action @ (Action::Printf | Action::System | Action::Freopen)) => {
                if let Some(format) = format {
                    return self.printf(action, format, here, world, sink);
                }
                put(self, Datum::Value(value))?;
            }
            Some(Action::DifExpr) if printed.is_some() => {
                let name = printed.as_deref().unwrap_or_default();
                let ty = self.printed_type(name, firing, world, sink)?;
                let ty = ty.filter(|_| !data.is_empty());
                let datum = ty.map_or(Datum::Value(value), |ty| Datum::Typed(ty, data));
                sink.datum(firing, &datum, &self.settings.view(world))?;
            }
            _ if data.is_empty() => {}
            _ => put(self, Datum::Value(value))?,
        }
        Ok(1)
    }

    fn printf(
        &mut self,
        action: Action,
        format: &Format,
        here: Here<'_>,
        world: &World<'_>,
        sink: &mut dyn Sink,
    ) -> Result<usize> {
        let Here { record, firing, rest } = here;
        let takes = format.takes();
        let descs = rest.get(..takes).ok_or(RenderError::Mismatch)?;
        let mut arguments = Arguments::new();
        record.arguments(descs, &mut arguments)?;
        let view = self.settings.view(world);
        if action == Action::Printf {
            sink.datum(firing, &Datum::Printf(format, &arguments), &view)?;
            return Ok(takes);
        }
        // A command or file name has the size of a string.
        let mut text = Vec::new();
        format.show(&mut text, &view, &arguments, &[])?;
        text.truncate(view.strsize().saturating_sub(1));
        let text = until_zero(&text);
        let request = match action {
            Action::System => Request::System(text),
            _ => Request::Freopen(Some(text).filter(|&text| text != RESTORE)),
        };
        self.request(request, here, world, sink)?;
        Ok(takes)
    }

    /// Passes the request of a statement to the sink: for performing it if this run compiled the program, otherwise
    /// only for showing it.
    fn request(
        &mut self,
        request: Request<'_>,
        here: Here<'_>,
        world: &World<'_>,
        sink: &mut dyn Sink,
    ) -> Result {
        let order = here.rest[0].permit.and_then(|permit| permit.order(request));
        let view = self.settings.view(world);
        match order {
            Some(order) => sink.datum(here.firing, &Datum::Order(order), &view),
            None if self.catalog.is_own() => {
                let (epid, name) = (here.record.epid, request.name());
                Err(Contradiction::NotAllowed { epid, name }.into())
            }
            None => {
                sink.datum(here.firing, &Datum::Request(request), &view)?;
                self.not_done(request.name(), sink)
            }
        }
    }

    /// Reports, once for each function of D, that dtrace does not perform it for a program of another run.
    fn not_done(&mut self, name: &'static str, sink: &mut dyn Sink) -> Result {
        if !self.said.insert(name) {
            return Ok(());
        }
        sink.message(&format!(
            "{name}( ) not performed: another run compiled the program that recorded it\n"
        ))
    }

    /// Returns the type that `print` shows. If another run of dtrace compiled the program, the type may be missing here; the first
    /// time, a message says so.
    fn printed_type(
        &mut self,
        name: &str,
        firing: &Firing<'_>,
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<TypeId>> {
        if let Some(known) = self.types.get(name) {
            return Ok(*known);
        }
        let ty = world.types.of_printed(name);
        self.types.insert(name.into(), ty.ok());
        if let Err(name) = ty {
            let what = format!(
                "print( ) of {name}: unknown type, so dtrace prints its bytes; name the folder of \
                 a library that declares it with -L"
            );
            self.complain(firing, what, world, sink)?;
        }
        Ok(ty.ok())
    }

    /// Returns the number of the aggregation's variable from the record, after comparing it with that of the compiled program.
    fn variable(record: &Record<'_>, datum: &description::KnownDatum) -> Result<u32> {
        let told = u64_of(record.data(&datum.desc)?) as u32;
        match datum.variable {
            Some(own) if own != told => Err(Contradiction::Variable { epid: record.epid }.into()),
            _ => Ok(told),
        }
    }

    fn printa(
        &mut self,
        here: Here<'_>,
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result<usize> {
        let Here { record, firing, rest } = here;
        let own = &rest[..self.statement(rest)];
        if own.iter().any(|datum| datum.desc.action != rest[0].desc.action) {
            return Err(RenderError::Aggregation(0));
        }
        let variables: Result<Vec<u32>> =
            own.iter().map(|datum| Self::variable(record, datum)).collect();
        let variables = variables?;
        let format = rest[0].format.as_deref();
        let Self { settings, catalog, aggregations, printed, .. } = self;
        // Without a format, the name of the kernel is the first key if there are several kernels.
        let mut named = Aggregations::default();
        let aggregations = match settings.host_key().filter(|_| format.is_none()) {
            Some(host) => {
                let wanted = |entry: &Entry| variables.contains(&entry.variable);
                named.absorb(Some(host), aggregations, wanted);
                &named
            }
            None => aggregations,
        };
        let table: Table<'_> = match variables[..] {
            [variable] => aggregations.table(&settings.options, |entry| entry.variable == variable),
            _ => aggregations.joined(&settings.options, &variables, |variable| {
                catalog.of_variable(world.descriptions, variable)
            }),
        };
        let view = settings.view(world);
        sink.datum(firing, &Datum::Printa(format, &table), &view)?;
        printed.extend(table.descriptions().map(|description| description.id));
        // Hidden elements count as printed, too.
        printed.extend(aggregations.ids(&variables));
        Ok(variables.len())
    }

    /// Performs an action of the consumer, which shows nothing.
    fn library(&mut self, here: Here<'_>, world: &World<'_>, sink: &mut dyn Sink) -> Result<usize> {
        let Here { record, firing, rest } = here;
        let datum = &rest[0];
        let desc = &datum.desc;
        let data = record.data(desc)?;
        let variable = Self::variable(record, datum)?;
        let action = u16::try_from(desc.arg).ok().and_then(LibAction::from_number);
        // The second datum, of actions that have two.
        let second = || -> Result<&[u8]> {
            let same = |second: &&description::KnownDatum| {
                (second.desc.action, second.desc.arg) == (desc.action, desc.arg)
            };
            record.data(&rest.get(1).filter(same).ok_or(RenderError::Mismatch)?.desc)
        };
        match action {
            Some(LibAction::Clear) => self.aggregations.clear(variable),
            Some(LibAction::Denormalize) => self.aggregations.normalize(variable, 1),
            Some(LibAction::Normalize) => {
                let normal = unsigned(second()?).ok_or(RenderError::Mismatch)?;
                self.aggregations.normalize(variable, normal as i64);
                return Ok(2);
            }
            Some(LibAction::Trunc) => {
                let count = signed(second()?).ok_or(RenderError::Mismatch)?;
                match self.settings.is_added_up() {
                    true => self.aggregations.trunc_sum(variable, count),
                    false => self.aggregations.trunc(variable, count),
                }
                return Ok(2);
            }
            Some(LibAction::Ftruncate) => self.request(Request::Ftruncate, here, world, sink)?,
            Some(LibAction::Setopt) => {
                let value = second()?;
                if !datum.permit.is_some_and(Permit::is_setopt) {
                    self.not_done("setopt", sink)?;
                    return Ok(2);
                }
                // An option without a value has a meaningless number here.
                let value = if value.len() > 8 { until_zero(value) } else { b"1" };
                let name = String::from_utf8_lossy(until_zero(data)).into_owned();
                let value = String::from_utf8_lossy(value).into_owned();
                if let Err(why) = setopt::set(&mut self.settings.options, &name, &value) {
                    let (name, value) = (escape::line(&name), escape::line(&value));
                    let text = format!("couldn't set option \"{name}\" to \"{value}\": {why}\n");
                    self.complain(firing, text, world, sink)?;
                }
                return Ok(2);
            }
            None => {}
        }
        Ok(1)
    }
}
