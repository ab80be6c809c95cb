//! Records as a timeline that the Perfetto UI opens: the trace event format, in JSON.

use std::collections::BTreeSet;
use std::io::Write;

use crate::render::aggregate::table::Table;
use crate::render::data::argument::Argument;
use crate::render::data::bits::{signed, until_zero};
use crate::render::data::error::Result;
use crate::render::data::format::Format;
use crate::render::data::view::View;
use crate::render::sink::document::json_text;
use crate::render::sink::flow::Flow;
use crate::render::sink::{Datum, Firing, Sink};

/// A timeline: a track for each CPU, and on it an event for each record. Under `flowindent` entries and
/// returns are the ends of a span.
#[derive(Debug)]
pub struct Perfetto<W> {
    to: W,
    cpus: BTreeSet<u32>,
    begun: bool,
    /// The text of the current record.
    text: Vec<u8>,
    /// Its arguments of the probe that have names, as members of an object.
    named: String,
}

impl<W: Write> Perfetto<W> {
    /// A timeline on its way to a writer.
    pub const fn new(to: W) -> Self {
        Self { to, cpus: BTreeSet::new(), begun: false, text: Vec::new(), named: String::new() }
    }

    /// The writer, to be given back.
    pub fn into_inner(self) -> W {
        self.to
    }

    fn event(&mut self, event: &str) -> Result {
        let before =
            if std::mem::replace(&mut self.begun, true) { ",\n" } else { "{\"traceEvents\":[\n" };
        self.to.write_all(before.as_bytes())?;
        Ok(self.to.write_all(event.as_bytes())?)
    }

    /// Adds an argument that has a name. Of several with one name, the first counts.
    fn name(&mut self, argument: &Argument<'_>) {
        let Some(name) = argument.name else { return };
        let mut member = String::from(",");
        json_text(name, &mut member);
        member.push(':');
        if self.named.contains(&member) {
            return;
        }
        match signed(argument.data) {
            Some(number) => member.push_str(&number.to_string()),
            None => json_text(&String::from_utf8_lossy(until_zero(argument.data)), &mut member),
        }
        self.named.push_str(&member);
    }

    fn printf(&mut self, format: &Format, arguments: &[Argument<'_>], view: &View<'_>) -> Result {
        arguments.iter().for_each(|argument| self.name(argument));
        format.show(&mut self.text, view, arguments, &[])
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn begin(&mut self, firing: &Firing<'_>, _: &View<'_>) -> Result {
        self.text.clear();
        self.named.clear();
        if self.cpus.insert(firing.cpu) {
            let cpu = firing.cpu;
            let name = format!(
                "{{\"ph\":\"M\",\"pid\":0,\"tid\":{cpu},\"name\":\"thread_name\",\"args\":{{\"name\":\"CPU {cpu}\"}}}}"
            );
            self.event(&name)?;
        }
        Ok(())
    }

    fn datum(&mut self, _: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        let place;
        let text = match datum {
            Datum::Printf(format, arguments) => return self.printf(format, arguments, view),
            Datum::Value(value) => {
                self.name(value);
                match signed(value.data) {
                    Some(number) => number.to_string(),
                    None => String::from_utf8_lossy(until_zero(value.data)).into_owned(),
                }
            }
            Datum::Place(at) => {
                place = at.names(view);
                place.join("\n")
            }
            _ => return Ok(()),
        };
        if !self.text.is_empty() {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn end(&mut self, firing: &Firing<'_>, _: &View<'_>) -> Result {
        let Firing { cpu, probe, time, flow, .. } = *firing;
        let (phase, name) = match flow {
            Flow::Entry => ("\"B\"", probe.function.clone()),
            Flow::Return => ("\"E\"", probe.function.clone()),
            Flow::None if probe.function.is_empty() => ("\"i\",\"s\":\"t\"", probe.name.clone()),
            Flow::None => ("\"i\",\"s\":\"t\"", format!("{}:{}", probe.function, probe.name)),
        };
        let (mut name_text, mut category, mut text) = (String::new(), String::new(), String::new());
        json_text(&name, &mut name_text);
        json_text(&probe.provider, &mut category);
        json_text(String::from_utf8_lossy(&self.text).trim_end(), &mut text);
        let output =
            if self.text.is_empty() { String::new() } else { format!(",\"output\":{text}") };
        let args = format!("{output}{}", self.named);
        let args = args.strip_prefix(',').unwrap_or_default();
        // Microseconds, with the nanoseconds behind the point.
        let (whole, part) = (time / 1000, time % 1000);
        self.event(&format!(
            "{{\"ph\":{phase},\"pid\":0,\"tid\":{cpu},\"ts\":{whole}.{part:03},\"name\":{name_text},\"cat\":{category},\"args\":{{{args}}}}}"
        ))
    }

    fn finish(&mut self, _: &Table<'_>, _: &View<'_>) -> Result {
        let name =
            "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"dtrace\"}}";
        self.event(name)?;
        self.to.write_all(b"\n],\"displayTimeUnit\":\"ns\"}\n")?;
        Ok(self.to.flush()?)
    }
}
