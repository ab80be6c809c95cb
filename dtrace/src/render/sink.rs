//! Where records and aggregations go: a stream of them with their types, whatever is made of it.

use dtrace_abi::action::Action;
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::types::TypeId;

use super::aggregate::Table;
use super::effect::{Order, Request};
use super::error::Result;
use super::flow::Flow;
use super::format::Format;
use super::message::{Drops, ProbeError};
use super::place::Place;
use super::value::Argument;
use super::view::View;

/// A probe has fired and left a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing<'a> {
    /// The CPU that it fired on.
    pub cpu: u32,
    /// Number of the enabled probe.
    pub epid: u32,
    /// The probe.
    pub probe: &'a Description,
    /// When, in nanoseconds of the kernel's clock.
    pub time: u64,
    /// What it is to the flow of control, under `flowindent`.
    pub flow: Flow,
    /// Columns that it is indented.
    pub indent: usize,
}

/// What an action of a clause has left.
#[derive(Clone, Debug)]
pub enum Datum<'a> {
    /// `trace`
    Value(&'a [u8]),
    /// `print`: data of a type.
    Typed(TypeId, &'a [u8]),
    /// `tracemem` or `printm`, which of them and the bytes.
    Memory(Action, &'a [u8]),
    /// `stack`, `ustack`, `sym` and their like.
    Place(Place),
    /// `printf`
    Printf(&'a Format, &'a [Argument<'a>]),
    /// `printa`, with its format if it has one.
    Printa(Option<&'a Format>, &'a Table<'a>),
    /// `system`, `freopen` or `ftruncate` of a program that this run compiled: to perform.
    Order(Order<'a>),
    /// The same of a program that another run compiled: to show, never to perform.
    Request(Request<'a>),
    /// `exit`
    Exit(u32),
}

/// Takes what is consumed.
///
/// For each record: [`begin`](Self::begin), then [`datum`](Self::datum) for each action that left
/// something, then [`end`](Self::end). An implementation does what it likes with each of them; what it
/// does not care for it need not implement.
pub trait Sink {
    /// A record begins.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn begin(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        let _ = (firing, view);
        Ok(())
    }

    /// A datum of the record.
    ///
    /// # Errors
    ///
    /// It cannot be shown or written. [`RenderError::Reopen`](super::RenderError::Reopen) is reported as
    /// an error of the probe's; any other ends the run.
    fn datum(&mut self, firing: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        let _ = (firing, datum, view);
        Ok(())
    }

    /// The record ends.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        let _ = (firing, view);
        Ok(())
    }

    /// An enabling was given up, or what it asked for cannot be done.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        let _ = (error, view);
        Ok(())
    }

    /// Data were dropped.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        let _ = (drops, view);
        Ok(())
    }

    /// Text of the consumer's own, for who reads the output.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn print(&mut self, text: &str) -> Result {
        let _ = text;
        Ok(())
    }

    /// A message of the consumer's own: a line with its newline.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn message(&mut self, text: &str) -> Result {
        let _ = text;
        Ok(())
    }

    /// All that has come is to be seen by now.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn flush(&mut self) -> Result {
        Ok(())
    }

    /// The run is over; these are the elements that nobody printed.
    ///
    /// # Errors
    ///
    /// They cannot be shown or written.
    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        let _ = (rest, view);
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn begin(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        (**self).begin(firing, view)
    }

    fn datum(&mut self, firing: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        (**self).datum(firing, datum, view)
    }

    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        (**self).end(firing, view)
    }

    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        (**self).error(error, view)
    }

    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        (**self).drops(drops, view)
    }

    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        (**self).finish(rest, view)
    }

    fn print(&mut self, text: &str) -> Result {
        (**self).print(text)
    }

    fn message(&mut self, text: &str) -> Result {
        (**self).message(text)
    }

    fn flush(&mut self) -> Result {
        (**self).flush()
    }
}

/// Of a sink that may be missing: what there is.
impl<S: Sink> Sink for Option<S> {
    fn begin(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.begin(firing, view))
    }

    fn datum(&mut self, firing: &Firing<'_>, datum: &Datum<'_>, view: &View<'_>) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.datum(firing, datum, view))
    }

    fn end(&mut self, firing: &Firing<'_>, view: &View<'_>) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.end(firing, view))
    }

    fn error(&mut self, error: &ProbeError<'_>, view: &View<'_>) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.error(error, view))
    }

    fn drops(&mut self, drops: &Drops, view: &View<'_>) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.drops(drops, view))
    }

    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.finish(rest, view))
    }

    fn print(&mut self, text: &str) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.print(text))
    }

    fn message(&mut self, text: &str) -> Result {
        self.as_mut().map_or(Ok(()), |sink| sink.message(text))
    }

    fn flush(&mut self) -> Result {
        self.as_mut().map_or(Ok(()), Sink::flush)
    }
}

/// Both, one after the other.
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

    fn finish(&mut self, rest: &Table<'_>, view: &View<'_>) -> Result {
        self.0.finish(rest, view)?;
        self.1.finish(rest, view)
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
}
