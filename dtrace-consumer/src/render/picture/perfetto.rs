//! Records as a timeline that the Perfetto UI opens: the trace event format, in JSON.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use super::slices::{self, SliceRule};
use crate::render::aggregate::label::LabelValue;
use crate::render::aggregate::table::Table;
use crate::render::data::error::Result;
use crate::render::data::view::View;
use crate::render::sink::document::json_text;
use crate::render::sink::flow::Flow;
use crate::render::sink::recorded::Recorded;
use crate::render::sink::{Datum, Firing, Sink};

/// The process of the tracks of CPUs; no other process has this number.
const CPUS: i64 = 0;
/// The process of threads whose records have no `pid`.
const THREADS: i64 = 1;
/// The most open slices. Further slices are not drawn.
const OPEN: usize = 1 << 20;

/// A timeline. The probes of a pair are the ends of a slice: for each value of an argument, or on the track of a thread. All other
/// records are events on the track of their thread, or of their CPU if no thread is recorded. Under `flowindent`, entries and returns
/// are the ends of a slice on the track of the CPU.
#[derive(Debug)]
pub struct Perfetto<W> {
    to: W,
    rules: Vec<SliceRule>,
    /// Tracks and processes that have a name.
    named: HashSet<(i64, Option<i64>)>,
    /// The open slices: their track, name and the value of their key, with the time at which they began.
    open: HashMap<(Track, String, String), u64>,
    begun: bool,
    recorded: Recorded,
}

/// The place at which an event is drawn: the process, and the thread or CPU.
type Track = (i64, i64);

/// Returns a text as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    json_text(text, &mut out);
    out
}

/// Returns a value as JSON.
fn json(value: &LabelValue) -> String {
    match value {
        LabelValue::Number(number) => number.to_string(),
        LabelValue::Text(text) => quoted(text),
    }
}

/// The kind of an event in the trace event format.
enum Phase {
    /// A point of its track.
    Instant,
    /// The begin of a slice of its track.
    Begin,
    /// The end of a slice on its track.
    End,
    /// The begin of a slice that others may overlap.
    BeginOf(String),
    /// The end of the slice with this id.
    EndOf(String),
}

impl Phase {
    /// Returns the members of the event.
    fn members(&self) -> String {
        match self {
            Self::Instant => "\"ph\":\"i\",\"s\":\"t\"".to_owned(),
            Self::Begin => "\"ph\":\"B\"".to_owned(),
            Self::End => "\"ph\":\"E\"".to_owned(),
            Self::BeginOf(id) => format!("\"ph\":\"b\",\"id\":{}", quoted(id)),
            Self::EndOf(id) => format!("\"ph\":\"e\",\"id\":{}", quoted(id)),
        }
    }
}

impl<W: Write> Perfetto<W> {
    /// Creates a timeline that is written to `to`. Pairs of probes are found by their names.
    pub fn new(to: W) -> Self {
        Self::with_slices(to, Vec::new())
    }

    /// Creates a timeline that is written to `to`. These rules for pairs of probes have priority over their names.
    pub fn with_slices(to: W, rules: Vec<SliceRule>) -> Self {
        Self {
            to,
            rules,
            named: HashSet::new(),
            open: HashMap::new(),
            begun: false,
            recorded: Recorded::default(),
        }
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.to
    }

    fn event(&mut self, event: &str) -> Result {
        let before =
            if std::mem::replace(&mut self.begun, true) { ",\n" } else { "{\"traceEvents\":[\n" };
        self.to.write_all(before.as_bytes())?;
        Ok(self.to.write_all(event.as_bytes())?)
    }

    /// Writes the name of a process, or of a track in it, the first time that it is used.
    fn name(&mut self, pid: i64, track: Option<i64>, name: &str) -> Result {
        if !self.named.insert((pid, track)) {
            return Ok(());
        }
        let (kind, tid) = match track {
            Some(tid) => ("thread_name", format!("\"tid\":{tid},")),
            None => ("process_name", String::new()),
        };
        let name = quoted(name);
        self.event(&format!(
            "{{\"ph\":\"M\",\"pid\":{pid},{tid}\"name\":\"{kind}\",\"args\":{{\"name\":{name}}}}}"
        ))
    }

    /// Returns the track of the current record, after writing the track's name if it has none yet.
    fn track(&mut self, cpu: u32) -> Result<Track> {
        let number = |name: &str| match self.recorded.variable(name) {
            Some(LabelValue::Number(number)) => Some(*number),
            _ => None,
        };
        let text = |name: &str| self.recorded.variable(name).map(ToString::to_string);
        let Some(tid) = number("tid") else {
            self.name(CPUS, None, "CPUs")?;
            self.name(CPUS, Some(cpu.into()), &format!("CPU {cpu}"))?;
            return Ok((CPUS, cpu.into()));
        };
        let pid = number("pid").filter(|pid| *pid != CPUS);
        let (program, thread) = (text("execname"), text("threadname"));
        let process = match pid {
            Some(pid) => program.unwrap_or_else(|| format!("process {pid}")),
            None => "threads".to_owned(),
        };
        let pid = pid.unwrap_or(THREADS);
        self.name(pid, None, &process)?;
        self.name(pid, Some(tid), &thread.unwrap_or_else(|| format!("thread {tid}")))?;
        Ok((pid, tid))
    }

    /// Returns the beginning or end of a slice for the current record. `None` if the probe belongs to no pair, if the record has
    /// no value for the key, or if an earlier record of the same hit has already begun or ended the slice.
    fn slice(&mut self, firing: &Firing<'_>, track: Track) -> Option<(Phase, String)> {
        let end = slices::end(&self.rules, firing.probe)?;
        let value = end.key.argument().and_then(|name| self.recorded.value(name));
        let value = value.map(ToString::to_string);
        let has_thread = end.key.is_thread() && self.recorded.variable("tid").is_some();
        let (track, value) = match value {
            // The ends may be in different threads.
            Some(value) => ((CPUS, CPUS), value),
            None if has_thread => (track, String::new()),
            None => return None,
        };
        let is_of_thread = value.is_empty();
        let id = format!("{} {value}", end.name);
        let key = (track, firing.probe.provider.clone(), id.clone());
        if end.is_start {
            if self.open.get(&key) == Some(&firing.time) {
                return None;
            }
            if self.open.len() < OPEN {
                self.open.insert(key, firing.time);
            }
        } else {
            self.open.remove(&key)?;
        }
        let phase = match (end.is_start, is_of_thread) {
            (true, true) => Phase::Begin,
            (false, true) => Phase::End,
            (true, false) => Phase::BeginOf(id),
            (false, false) => Phase::EndOf(id),
        };
        Some((phase, end.name))
    }

    /// Returns the printed text and the named values of the current record, as the members of an object.
    fn args(&self) -> String {
        let text = self.recorded.text();
        let text = Some(("output", quoted(&text))).filter(|_| !text.is_empty());
        let named = self.recorded.named().iter().map(|(name, value)| (name.as_str(), json(value)));
        let variables = self.recorded.variables().iter().map(|(name, value)| (*name, json(value)));
        let mut names = HashSet::new();
        let all = text.into_iter().chain(named).chain(variables);
        let all = all.filter(|(name, _)| names.insert(name.to_string()));
        let members: Vec<String> =
            all.map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        members.join(",")
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn begin(&mut self, _: &Firing<'_>, _: &View<'_>) -> Result {
        self.recorded.clear();
        Ok(())
    }

    fn datum(&mut self, _: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        self.recorded.add(datum, view)
    }

    fn end(&mut self, firing: &Firing<'_>, _: &View<'_>) -> Result {
        let Firing { cpu, probe, time, flow, .. } = *firing;
        let track = self.track(cpu)?;
        let (phase, name) = match (self.slice(firing, track), flow) {
            (Some(slice), _) => slice,
            (None, Flow::Entry) => (Phase::Begin, probe.function.clone()),
            (None, Flow::Return) => (Phase::End, probe.function.clone()),
            (None, Flow::None) if probe.function.is_empty() => (Phase::Instant, probe.name.clone()),
            (None, Flow::None) => (Phase::Instant, format!("{}:{}", probe.function, probe.name)),
        };
        let ((pid, tid), phase, args) = (track, phase.members(), self.args());
        let (name, category) = (quoted(&name), quoted(&probe.provider));
        // Microseconds, with the nanoseconds behind the point.
        let (whole, part) = (time / 1000, time % 1000);
        self.event(&format!(
            "{{{phase},\"pid\":{pid},\"tid\":{tid},\"ts\":{whole}.{part:03},\"name\":{name},\"cat\":{category},\"args\":{{{args}}}}}"
        ))
    }

    fn finish(&mut self, _: &Table<'_>, _: &View<'_>) -> Result {
        let before = if self.begun { "" } else { "{\"traceEvents\":[" };
        self.to.write_all(before.as_bytes())?;
        self.to.write_all(b"\n],\"displayTimeUnit\":\"ns\"}\n")?;
        Ok(self.to.flush()?)
    }
}
