//! Sinks: they receive a stream of records and aggregations with their types.

mod apply;
pub(super) mod document;
pub(super) mod flow;
pub(super) mod message;
pub(super) mod output;
#[cfg(any(feature = "otlp", feature = "pictures"))]
pub(super) mod recorded;
pub(super) mod structured;
pub(super) mod text;

use dtrace_abi::action::Action;
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::types::TypeId;

use crate::render::aggregate::store::Aggregations;
use crate::render::aggregate::table::Table;
use crate::render::data::argument::Argument;
use crate::render::data::error::Result;
use crate::render::data::format::Format;
use crate::render::data::place::Place;
use crate::render::data::view::View;
use crate::render::record::effect::{Order, Request};
use crate::render::sink::flow::Flow;
use crate::render::sink::message::{Drops, ProbeError};

/// The record of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing<'a> {
    /// The CPU that it fired on.
    pub cpu: u32,
    /// Number of the enabled probe.
    pub epid: u32,
    /// The probe.
    pub probe: &'a Description,
    /// The time of the hit, in nanoseconds of the kernel's clock.
    pub time: u64,
    /// Whether it is an entry or a return, under `flowindent`.
    pub flow: Flow,
    /// The indentation in columns.
    pub indent: usize,
}

/// The datum of an action.
#[derive(Clone, Debug)]
pub enum Datum<'a> {
    /// `trace`
    Value(Argument<'a>),
    /// `print`: data of a type.
    Typed(TypeId, &'a [u8]),
    /// `tracemem` or `printm`, which of them and the bytes.
    Memory(Action, &'a [u8]),
    /// `stack`, `ustack`, `sym` and similar actions.
    Place(Place),
    /// `printf`
    Printf(&'a Format, &'a [Argument<'a>]),
    /// `printa`, with its format if it has one.
    Printa(Option<&'a Format>, &'a Table<'a>),
    /// `system`, `freopen` or `ftruncate` of a program that this run compiled: to perform.
    Order(Order<'a>),
    /// A request of a program that another run compiled: it is only shown, never performed.
    Request(Request<'a>),
    /// `exit`
    Exit(u32),
}

/// Receives the records and aggregations of a run.
///
/// For each record the consumer calls [`begin`](Self::begin), then [`datum`](Self::datum) for each action that recorded
/// something, then [`end`](Self::end). An implementation overrides the methods that it needs; the others do nothing.
pub trait Sink {
    /// Begins a record.
    ///
    /// # Errors
    /// Writing failed.
    fn begin(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        let _ = (firing, view);
        Ok(())
    }

    /// Receives a datum of the record.
    ///
    /// # Errors
    /// The datum cannot be shown, or writing failed. [`RenderError::Reopen`](crate::render::RenderError::Reopen) is reported as an
    /// error of the probe; any other error ends the run.
    fn datum(&mut self, firing: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        let _ = (firing, datum, view);
        Ok(())
    }

    /// Ends the record.
    ///
    /// # Errors
    /// Writing failed.
    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        let _ = (firing, view);
        Ok(())
    }

    /// Receives a fault of a clause, or an action that cannot be performed.
    ///
    /// # Errors
    /// Writing failed.
    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        let _ = (error, view);
        Ok(())
    }

    /// Receives a number of dropped data.
    ///
    /// # Errors
    /// Writing failed.
    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        let _ = (drops, view);
        Ok(())
    }

    /// Receives text of the consumer for the output.
    ///
    /// # Errors
    /// Writing failed.
    fn print(&mut self, text: &str) -> Result {
        let _ = text;
        Ok(())
    }

    /// Receives a message of the consumer: one line with its newline.
    ///
    /// # Errors
    /// Writing failed.
    fn message(&mut self, text: &str) -> Result {
        let _ = text;
        Ok(())
    }

    /// Makes everything received so far visible to readers of the output.
    ///
    /// # Errors
    /// Writing failed.
    fn flush(&mut self) -> Result {
        Ok(())
    }

    /// Receives all aggregations of a kernel each time they have been read from it.
    ///
    /// # Errors
    /// Writing failed.
    fn sample(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result {
        let _ = (aggregations, view);
        Ok(())
    }

    /// Receives all aggregations at the end of the run, printed or not, before [`finish`](Self::finish).
    ///
    /// # Errors
    /// They cannot be shown, or writing failed. The run calls `finish` nevertheless.
    fn complete(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result {
        let _ = (aggregations, view);
        Ok(())
    }

    /// Ends the run with the aggregations that no program has printed.
    ///
    /// # Errors
    /// They cannot be shown, or writing failed.
    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        let _ = (rest, view);
        Ok(())
    }
}

/// Forwards to both sinks, one after the other.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn begin(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        self.0.begin(firing, view)?;
        self.1.begin(firing, view)
    }

    fn datum(&mut self, firing: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        self.0.datum(firing, datum, view)?;
        self.1.datum(firing, datum, view)
    }

    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        self.0.end(firing, view)?;
        self.1.end(firing, view)
    }

    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        self.0.error(error, view)?;
        self.1.error(error, view)
    }

    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        self.0.drops(drops, view)?;
        self.1.drops(drops, view)
    }

    fn print(&mut self, text: &str) -> Result {
        self.0.print(text)?;
        self.1.print(text)
    }

    fn message(&mut self, text: &str) -> Result {
        self.0.message(text)?;
        self.1.message(text)
    }

    fn flush(&mut self) -> Result {
        self.0.flush()?;
        self.1.flush()
    }

    fn sample(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result {
        self.0.sample(aggregations, view)?;
        self.1.sample(aggregations, view)
    }

    fn complete(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result {
        let first = self.0.complete(aggregations, view);
        let second = self.1.complete(aggregations, view);
        first.and(second)
    }

    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        self.0.finish(rest, view)?;
        self.1.finish(rest, view)
    }
}

/// Forwards to all sinks in their order.
impl Sink for Vec<Box<dyn Sink + '_>> {
    fn begin(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        self.iter_mut().try_for_each(|sink| sink.begin(firing, view))
    }

    fn datum(&mut self, firing: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        self.iter_mut().try_for_each(|sink| sink.datum(firing, datum, view))
    }

    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        self.iter_mut().try_for_each(|sink| sink.end(firing, view))
    }

    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        self.iter_mut().try_for_each(|sink| sink.error(error, view))
    }

    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        self.iter_mut().try_for_each(|sink| sink.drops(drops, view))
    }

    fn print(&mut self, text: &str) -> Result {
        self.iter_mut().try_for_each(|sink| sink.print(text))
    }

    fn message(&mut self, text: &str) -> Result {
        self.iter_mut().try_for_each(|sink| sink.message(text))
    }

    fn flush(&mut self) -> Result {
        self.iter_mut().try_for_each(|sink| sink.flush())
    }

    fn sample(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result {
        self.iter_mut().try_for_each(|sink| sink.sample(aggregations, view))
    }

    fn complete(&mut self, aggregations: &Aggregations, view: &View<'_>) -> Result {
        let all = self.iter_mut().map(|sink| sink.complete(aggregations, view));
        all.fold(Ok(()), Result::and)
    }

    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        self.iter_mut().try_for_each(|sink| sink.finish(rest, view))
    }
}
