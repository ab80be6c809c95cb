//! The text format of dtrace(1).

use std::collections::{BTreeMap, HashSet};

use dtrace_abi::action::Action;
use dtrace_abi::option::OptionId;

use crate::escape;
use crate::render::aggregate::bar::Bars;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::table::{Row, Scale, Table};
use crate::render::aggregate::{distribution, packed};
use crate::render::data::argument::Argument;
use crate::render::data::bits::{signed, unsigned};
use crate::render::data::bytes::{self, Padding};
use crate::render::data::cprintf::Spec;
use crate::render::data::error::{RenderError, Result};
use crate::render::data::place::Place;
use crate::render::data::typed;
use crate::render::data::view::View;
use crate::render::record::effect::Request;
use crate::render::record::origin::Origin;
use crate::render::sink::flow::Flow;
use crate::render::sink::message::{Drops, ErrorKind, ProbeError};
use crate::render::sink::output::Output;
use crate::render::sink::{Datum, Firing, Sink};

/// Columns of a kernel's name, where there are several.
const HOST: usize = 15;

/// A sink that writes the text format of dtrace(1), byte for byte.
#[derive(Debug)]
pub struct Text<O> {
    output: O,
    /// The buffer for the text of a datum; reused.
    text: Vec<u8>,
    /// Whether the heading is printed.
    heading: bool,
    /// The remedies that are printed.
    remedies: HashSet<&'static str>,
    /// The faults that are printed, with the number of further ones at the same place since the last report.
    faults: BTreeMap<FaultPlace, Repeated>,
}

/// The kernel, number of the enabled probe, action, offset and number of a fault.
type FaultPlace = (Option<String>, u32, i32, i32, u64);

/// Repetitions of a fault that are not printed yet.
#[derive(Debug, Default)]
struct Repeated {
    count: u64,
    /// The message of the last repetition.
    last: String,
}

/// The most places of faults that are remembered. Further faults are printed one by one.
const PLACES: usize = 256;

impl<O: Output> Text<O> {
    /// Creates a sink that writes text to an output.
    pub fn new(output: O) -> Self {
        Self {
            output,
            text: Vec::new(),
            heading: false,
            remedies: HashSet::new(),
            faults: BTreeMap::new(),
        }
    }

    /// Returns the output.
    pub const fn output(&self) -> &O {
        &self.output
    }

    /// Ends the sink, and returns the output.
    pub fn into_output(self) -> O {
        self.output
    }

    /// Counts a fault of an instruction whose first fault is already printed. Returns whether it was counted.
    fn is_repeated(&mut self, error: &ProbeError<'_>, host: Option<&str>, text: &str) -> bool {
        let ErrorKind::Fault { fault, action, offset, .. } = error.what else { return false };
        let place = (host.map(str::to_owned), error.epid, action, offset, fault);
        if let Some(repeated) = self.faults.get_mut(&place) {
            repeated.count += 1;
            repeated.last = text.to_owned();
            return true;
        }
        if self.faults.len() < PLACES {
            self.faults.insert(place, Repeated::default());
        }
        false
    }

    /// Returns the view for data, whose destination may have changed by `freopen`: another file may or may not be a
    /// terminal.
    fn view<'a>(&self, view: &View<'a>) -> View<'a> {
        View { terminal: self.output.moved_to_terminal().unwrap_or(view.terminal), ..*view }
    }

    /// Writes the heading above the first record.
    fn heading(&mut self, view: &View<'_>) -> Result {
        if std::mem::replace(&mut self.heading, true) {
            return Ok(());
        }
        if view.host.is_some()
            && (view.is_set(OptionId::Flowindent) || !view.is_set(OptionId::Quiet))
        {
            self.output.line(format!("{:<HOST$} ", "HOST").as_bytes())?;
        }
        if view.is_set(OptionId::Flowindent) {
            self.output.line(format!("{:>3} {:<41}\n", "CPU", "FUNCTION").as_bytes())?;
        } else if !view.is_set(OptionId::Quiet) {
            let line = format!("{:>3} {:>6} {:>32}\n", "CPU", "ID", "FUNCTION:NAME");
            self.output.line(line.as_bytes())?;
        }
        Ok(())
    }
}

impl<O: Output> Sink for Text<O> {
    fn begin(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        self.heading(view)?;
        let Firing { cpu, probe, flow, indent, .. } = *firing;
        if let Some(host) = view.host
            && (view.is_set(OptionId::Flowindent) || !view.is_set(OptionId::Quiet))
        {
            self.output.line(format!("{host:<HOST$} ").as_bytes())?;
        }
        if view.is_set(OptionId::Flowindent) {
            let prefix = flow.prefix(probe);
            let name = match flow {
                Flow::None => format!("{}:{}", probe.function, probe.name),
                _ => probe.function.clone(),
            };
            let name = format!("{:indent$}{prefix}{name}", "");
            self.output.line(format!("{cpu:>3} {name:<41} ").as_bytes())?;
        } else if !view.is_set(OptionId::Quiet) {
            let name = format!("{}:{}", probe.function, probe.name);
            self.output.line(format!("{cpu:>3} {:>6} {name:>32} ", probe.id).as_bytes())?;
        }
        Ok(())
    }

    fn datum(&mut self, _: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        let view = &self.view(view);
        let quiet = view.is_set(OptionId::Quiet);
        let mut out = std::mem::take(&mut self.text);
        out.clear();
        match datum {
            Datum::Value(of) => value(&mut out, view, of.data, quiet),
            Datum::Typed(ty, data) => typed::show(&mut out, view, *ty, data),
            Datum::Memory(_, []) => {}
            Datum::Memory(_, data) => bytes::dump(&mut out, data),
            Datum::Place(place) => place.show(&mut out, view),
            Datum::Printf(format, arguments) => format.show(&mut out, view, arguments, &[])?,
            Datum::Printa(Some(format), table) => {
                for row in &table.rows {
                    let keys: Vec<Argument<'_>> = row.key.keys().collect();
                    let values: Vec<&Entry> = row.values.iter().map(|value| &**value).collect();
                    format.show(&mut out, view, &keys, &values)?;
                    self.output.write(&out)?;
                    out.clear();
                }
            }
            Datum::Printa(None, table) => {
                out.push(b'\n');
                show_table(&mut out, view, table)?;
            }
            Datum::Order(order) => {
                self.output.perform(order).map_err(|why| match order.request() {
                    Request::Freopen(file) => {
                        RenderError::Reopen { file: escape::name(file.unwrap_or_default()), why }
                    }
                    _ => why.into(),
                })?;
            }
            Datum::Request(request) => out.extend(format!("{request} (not performed)\n").bytes()),
            Datum::Exit(_) => {}
        }
        self.output.write(&out)?;
        self.text = out;
        Ok(())
    }

    fn end(&mut self, _: &Firing<'_>, view: &View<'_>) -> Result {
        if !view.is_set(OptionId::Quiet) {
            self.output.line(b"\n")?;
        }
        Ok(())
    }

    /// On a terminal, prints the place of the first fault of an instruction, and counts further ones.
    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        let text = format!("{}{error}", view.whose());
        if view.terminal && self.is_repeated(error, view.host, &text) {
            return Ok(());
        }
        self.output.message(&text)?;
        match error.origin.as_ref().filter(|_| view.terminal) {
            Some(Origin { line, frame }) => {
                Ok(self.output.message(&format!("the error is in line {line}:\n{frame}\n"))?)
            }
            None => Ok(()),
        }
    }

    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        let tag =
            if view.options.drop_tags { format!("[{}] ", drops.tag()) } else { String::new() };
        self.output.message(&format!("{}{tag}{drops}", view.whose()))?;
        match drops.remedy().filter(|_| view.terminal) {
            Some(remedy) if self.remedies.insert(remedy) => {
                Ok(self.output.message(&format!("{remedy}\n"))?)
            }
            _ => Ok(()),
        }
    }

    fn print(&mut self, text: &str) -> Result {
        Ok(self.output.line(text.as_bytes())?)
    }

    fn message(&mut self, text: &str) -> Result {
        Ok(self.output.message(text)?)
    }

    fn flush(&mut self) -> Result {
        for Repeated { count, last } in self.faults.values_mut().filter(|of| of.count != 0) {
            self.output.message(&format!("{count} more at the same place, the last: {last}"))?;
            *count = 0;
        }
        Ok(self.output.flush()?)
    }

    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        self.output.line(b"\n")?;
        let mut out = Vec::new();
        show_table(&mut out, &self.view(view), rest)?;
        Ok(self.output.write(&out)?)
    }
}

/// Writes a datum of `trace`: as an integer if it has the size of an integer, else as text or a dump.
fn value(out: &mut Vec<u8>, view: &View<'_>, data: &[u8], quiet: bool) {
    match integer(data) {
        Some((number, _)) if quiet => Spec::default().signed(out, number),
        Some((number, columns)) => {
            out.push(b' ');
            Spec::wide(columns).signed(out, number);
        }
        None => {
            bytes::show(out, view, data, if quiet { Padding::Bare } else { Padding::Columns(-33) })
        }
    }
}

/// Returns an integer and the number of its columns; `None` for other sizes. Integers of 4 and 8 bytes are signed.
fn integer(data: &[u8]) -> Option<(i64, i32)> {
    match data.len() {
        8 => Some((signed(data)?, 16)),
        4 => Some((signed(data)?, 8)),
        2 => Some((unsigned(data)? as i64, 5)),
        1 => Some((unsigned(data)? as i64, 3)),
        _ => None,
    }
}

/// Writes aggregations in the form that they have without a format (`dt_print_aggs`, dt_consume.c).
fn show_table(out: &mut Vec<u8>, view: &View<'_>, table: &Table<'_>) -> Result {
    let mut headed = None;
    for row in &table.rows {
        let scale = table.scale(row.key.variable);
        if let Some(scale) = scale
            && headed != Some(row.key.variable)
        {
            headed = Some(row.key.variable);
            bar_header(out, row, scale);
        }
        for key in row.key.keys() {
            show_key(out, view, &key, scale.is_some());
        }
        for value in &row.values {
            show_value(out, view, value, scale)?;
        }
        if scale.is_none() {
            out.push(b'\n');
        }
    }
    Ok(())
}

/// Returns the columns of a key that a bar follows.
fn packed_columns(key: &Argument<'_>) -> i32 {
    integer(key.data).map_or(16, |(_, columns)| columns)
}

fn bar_header(out: &mut Vec<u8>, row: &Row<'_>, scale: Scale) {
    let columns: usize = row.key.keys().map(|key| packed_columns(&key) as usize + 1).sum();
    match scale {
        Scale::Histogram { .. } => {
            distribution::header(out, if columns == 0 { None } else { Some(columns) });
        }
        Scale::Packed { first, last } => {
            packed::header(out, row.key.action, columns, (first, last));
        }
    }
}

fn show_key(out: &mut Vec<u8>, view: &View<'_>, key: &Argument<'_>, packed: bool) {
    if let Some(place) = Place::read(key.action, key.argument, key.data) {
        return place.show(out, view);
    }
    match integer(key.data) {
        Some((number, columns)) => {
            out.push(b' ');
            Spec::wide(columns).signed(out, number);
        }
        None => bytes::show(out, view, key.data, Padding::Columns(if packed { 16 } else { -50 })),
    }
}

fn show_value(out: &mut Vec<u8>, view: &View<'_>, entry: &Entry, scale: Option<Scale>) -> Result {
    let number = entry.number();
    match (number, scale) {
        (Some(_), Some(Scale::Histogram { total, positives, negatives })) => {
            out.push(b' ');
            // The bar shows the value before normalization.
            let value = match entry.action {
                Action::Sum | Action::Count => entry.words.first().copied().unwrap_or(0),
                _ => number.unwrap_or(0),
            };
            let normal =
                if matches!(entry.action, Action::Sum | Action::Count) { entry.normal } else { 1 };
            Bars { total, positives, negatives }.show(out, view, value, normal);
        }
        (Some(number), _) => {
            out.push(b' ');
            Spec::wide(16).signed(out, number);
        }
        (None, Some(Scale::Packed { first, last })) => {
            packed::show(out, view, entry, (first, last));
        }
        (None, _) => distribution::show(out, view, entry)?,
    }
    Ok(())
}
