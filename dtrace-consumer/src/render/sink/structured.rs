//! `-x oformat=json|xml`: records in FreeBSD's schema (dtrace(1), "STRUCTURED OUTPUT").
//!
//! A document has a list of `probes`, each with an `output`: the data of its actions. Probes without data are omitted.
//! `timestamp` is the time of the hit in nanoseconds of the kernel's clock, while FreeBSD writes the time of output;
//! for drops it is the time of day.

use dtrace_abi::action::Action;
use jiff::Timestamp;

use crate::render::aggregate::distribution;
use crate::render::aggregate::entry::Entry;
use crate::render::aggregate::table::Table;
use crate::render::data::argument::Argument;
use crate::render::data::bits::{signed, until_zero};
use crate::render::data::error::Result;
use crate::render::data::place::Place;
use crate::render::data::typed;
use crate::render::data::view::View;
use crate::render::record::effect::Request;
use crate::render::sink::document::Node;
use crate::render::sink::message::{DropKind, Drops, ProbeError};
use crate::render::sink::output::Output;
use crate::render::sink::{Datum, Firing, Sink};

/// A document's language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// JSON.
    Json,
    /// XML.
    Xml,
}

/// A document of records.
#[derive(Debug)]
pub struct Structured<O> {
    output: O,
    markup: Markup,
    begun: bool,
    probes: usize,
    /// The data of the current record.
    left: Vec<Node<'static>>,
    /// The buffer for the text of a probe; reused.
    text: String,
}

impl<O: Output> Structured<O> {
    /// Creates a sink that writes a document to an output.
    pub const fn new(output: O, markup: Markup) -> Self {
        Self { output, markup, begun: false, probes: 0, left: Vec::new(), text: String::new() }
    }

    /// Returns the output.
    pub fn into_output(self) -> O {
        self.output
    }

    fn head(&mut self) -> Result {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let head = match self.markup {
            Markup::Json => "{\"dtrace\": {\"probes\": [",
            Markup::Xml => "<?xml version=\"1.0\"?>\n<dtrace>",
        };
        Ok(self.output.line(head.as_bytes())?)
    }

    fn probe(&mut self, node: &Node<'_>) -> Result {
        self.head()?;
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        match self.markup {
            Markup::Json => {
                text.push_str(if self.probes > 0 { ", " } else { "" });
                node.json(&mut text);
            }
            Markup::Xml => node.xml("probes", &mut text),
        }
        self.probes += 1;
        self.output.line(text.as_bytes())?;
        self.text = text;
        Ok(())
    }
}

impl<O: Output> Sink for Structured<O> {
    fn datum(&mut self, _: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        match datum {
            Datum::Value(of) => self.left.push(value(of)),
            Datum::Typed(ty, data) => self.left.push(typed(view, *ty, data)),
            Datum::Memory(action, data) => {
                let bytes = data
                    .iter()
                    .fold(String::from("0x"), |text, byte| text + &format!("{byte:02x}"));
                self.left.push(Node::one(action.name(), Node::text(bytes)));
            }
            Datum::Place(at) => self.left.push(place(view, at)),
            Datum::Printf(format, arguments) => {
                let mut message = Vec::new();
                format.show(&mut message, view, arguments, &[])?;
                let message = String::from_utf8_lossy(&message).into_owned();
                self.left.push(Node::one("message", Node::text(message)));
                self.left.extend(arguments.iter().map(value));
                if arguments.is_empty() {
                    self.left.push(Node::one("value", Node::Number(0)));
                }
            }
            Datum::Printa(_, table) => self.left.extend(aggregations(view, table)),
            Datum::Order(order) => match order.request() {
                Request::System(_) => self.output.perform(order)?,
                // A document is always a single file, so these requests have no effect.
                Request::Freopen(_) | Request::Ftruncate => {}
            },
            Datum::Request(request) => {
                let call = Node::text(request.to_string());
                self.left.push(Node::one("not-performed", call));
            }
            Datum::Exit(_) => {}
        }
        Ok(())
    }

    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        let output = std::mem::take(&mut self.left);
        if output.is_empty() {
            return Ok(());
        }
        let probe = firing.probe;
        let mut fields = vec![
            ("timestamp", Node::Number(firing.time.into())),
            ("cpu", Node::Number(firing.cpu.into())),
            ("id", Node::Number(probe.id.into())),
            ("provider", Node::text(probe.provider.as_str())),
            ("module", Node::text(probe.module.as_str())),
            ("function", Node::text(probe.function.as_str())),
            ("name", Node::text(probe.name.as_str())),
            ("output", Node::List(output)),
        ];
        if let Some(host) = view.host {
            fields.insert(0, ("hostname", Node::text(host)));
        }
        self.probe(&Node::Object(fields))
    }

    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        Ok(self.output.message(&format!("{}{error}", view.whose()))?)
    }

    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        let cpu = match drops.kind {
            DropKind::Principal(cpu) | DropKind::Aggregation(cpu) => i128::from(cpu),
            _ => -1,
        };
        let now = Timestamp::now();
        let now = format!("{}.{:06}", now.as_second(), now.subsec_microsecond());
        let internal = || Node::text("INTERNAL");
        let mut fields = vec![
            ("cpu", Node::Number(cpu)),
            ("id", Node::Number(-1)),
            ("provider", Node::text("dtrace")),
            ("module", internal()),
            ("function", internal()),
            ("name", Node::text("DROP")),
            ("timestamp", Node::text(now)),
            ("count", Node::Number(drops.count.into())),
            ("total", Node::Number(drops.total.into())),
            ("kind", Node::Number(drops.number().into())),
            ("msg", Node::text(drops.to_string())),
        ];
        if let Some(host) = view.host {
            fields.insert(0, ("hostname", Node::text(host)));
        }
        self.probe(&Node::Object(fields))
    }

    fn message(&mut self, text: &str) -> Result {
        Ok(self.output.message(text)?)
    }

    fn flush(&mut self) -> Result {
        Ok(self.output.flush()?)
    }

    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        let left = aggregations(view, rest);
        if !left.is_empty() {
            self.probe(&Node::one("output", Node::List(left)))?;
        }
        self.head()?;
        let tail = match self.markup {
            Markup::Json => "]}}\n",
            Markup::Xml => "</dtrace>\n",
        };
        Ok(self.output.line(tail.as_bytes())?)
    }
}

/// Returns data in the form that their size determines, as for `trace`, with the name if they are an argument of the probe.
fn value(of: &Argument<'_>) -> Node<'static> {
    let node = match signed(of.data) {
        Some(number) => Node::Number(number.into()),
        None => Node::text(String::from_utf8_lossy(until_zero(of.data)).into_owned()),
    };
    let name = of.name.map(|name| ("argument", Node::text(name.to_owned())));
    Node::Object(std::iter::once(("value", node)).chain(name).collect())
}

fn place(view: &View<'_>, at: &Place) -> Node<'static> {
    let name = match at {
        Place::Stack(_) => "stack-frames",
        Place::UserStack { .. } => "ustack-frames",
        Place::Symbol(_) => "sym",
        Place::Module(_) => "mod",
        Place::UserSymbol(..) => "usym",
        Place::UserModule(..) => "umod",
        Place::UserAddress(..) => "uaddr",
    };
    let names = at.names(view);
    match at {
        Place::Stack(_) | Place::UserStack { .. } => {
            let frames =
                names.into_iter().map(|frame| Node::Object(parts("symbol", "module", frame)));
            Node::one(name, Node::List(frames.collect()))
        }
        Place::Symbol(_) | Place::UserSymbol(..) | Place::UserAddress(..) => {
            Node::Object(parts(name, "object", names.concat()))
        }
        Place::Module(_) | Place::UserModule(..) => Node::one(name, Node::text(names.concat())),
    }
}

/// Returns the members for an address: its whole name, and the parts of the name.
fn parts(
    whole_name: &'static str,
    module_name: &'static str,
    whole: String,
) -> Vec<(&'static str, Node<'static>)> {
    let mut members = vec![(whole_name, Node::text(whole.clone()))];
    let (module, rest) = match whole.split_once('`') {
        Some((module, rest)) => (Some(module), rest),
        None => (None, whole.as_str()),
    };
    members.extend(module.map(|module| (module_name, Node::text(module.to_owned()))));
    match rest.rsplit_once("+0x") {
        Some((name, offset)) => {
            members.push(("name", Node::text(name.to_owned())));
            members.push(("offset", Node::text(format!("0x{offset}"))));
        }
        None if rest.starts_with("0x") => members.push(("offset", Node::text(rest.to_owned()))),
        None => members.push(("name", Node::text(rest.to_owned()))),
    }
    members
}

fn typed(view: &View<'_>, ty: dtrace_compiler::types::TypeId, data: &[u8]) -> Node<'static> {
    let members = typed::members(view, ty, data).into_iter().map(|member| {
        let mut node = match member.name.as_str() {
            "" => vec![("object-name", Node::text("D"))],
            name => vec![("member-name", Node::text(name.to_owned()))],
        };
        node.push(("name", Node::text(member.type_name)));
        node.push(("ctfid", Node::Number(member.ty.number().into())));
        node.extend(member.value.map(|value| ("value", Node::text(value))));
        Node::Object(node)
    });
    Node::one("type", Node::List(members.collect()))
}

/// Returns the aggregations of a table, each with its elements in order.
fn aggregations(view: &View<'_>, table: &Table<'_>) -> Vec<Node<'static>> {
    let mut found: Vec<(u32, String, Vec<Node<'_>>)> = Vec::new();
    for (row, entry) in table.rows.iter().flat_map(|row| row.values.iter().map(move |v| (row, v))) {
        let node = element(view, row.key, entry);
        match found.iter_mut().find(|(variable, ..)| *variable == entry.variable) {
            Some((.., elements)) => elements.push(node),
            None => found.push((entry.variable, entry.description.name.clone(), vec![node])),
        }
    }
    let node = |(_, name, elements)| {
        Node::Object(vec![
            ("aggregation-data", Node::List(elements)),
            ("aggregation-name", Node::text(name)),
        ])
    };
    found.into_iter().map(node).collect()
}

fn element(view: &View<'_>, key: &Entry, entry: &Entry) -> Node<'static> {
    let keys = key.keys().map(|key| {
        Place::read(key.action, key.argument, key.data)
            .map_or_else(|| value(&key), |at| place(view, &at))
    });
    let keys = ("keys", Node::List(keys.collect()));
    let value = match entry.number() {
        Some(number) if entry.action == Action::Stddev => {
            ("stddev", Node::Number((number as u64).into()))
        }
        Some(number) => (entry.action.name(), Node::Number(number.into())),
        None => {
            let buckets = distribution::buckets(entry).into_iter().map(|(label, count)| {
                let label = label.parse().map_or_else(|_| Node::text(label), Node::Number);
                let count = count.checked_div(entry.normal).unwrap_or(0);
                Node::Object(vec![("value", label), ("count", Node::Number(count.into()))])
            });
            ("buckets", Node::List(buckets.collect()))
        }
    };
    Node::Object(vec![keys, value])
}
