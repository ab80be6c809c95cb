//! Renders the records of kernels as dtrace(1) does.
//!
//! | stage | from | to | libdtrace's file |
//! |---|---|---|---|
//! | [`Schedule`] | buffers of CPUs | records in order | dt_consume.c |
//! | [`Consumer`] | records, aggregation buffers | data with their kinds; `clear`, `trunc`, `setopt` done | dt_consume.c, dt_aggregate.c, dt_handle.c |
//! | [`Sink`] | data with their kinds | [`Text`]: dtrace(1)'s form | dtrace.c, dt_printf.c, dt_print.c |
//! | | | [`Structured`]: JSON or XML in FreeBSD's schema | dt_oformat.h |
//! | | | [`picture::Perfetto`]: a timeline for the Perfetto UI | |
//! | | | `Otlp`: metrics and logs for an OpenTelemetry collector | |
//! | [`Output`] | text, [`Order`]s | files; `system`, `freopen` done | dt_printf.c |
//!
//! Rendering needs [`Descriptions`] of the records, [`Symbols`] for addresses, and the compiler's types for `print`. Data of a
//! kernel are not trusted: data that do not match their description are an error, and the size of the output is bounded.
//!
//! The programs that this run compiled ([`Compiled`]) decide what a record means. A kernel's description that differs is an
//! error, and only statements of these programs perform actions on this machine ([`Order`]). Records of programs that another run
//! compiled (`-a`, a dump) are shown by the kernel's descriptions, and none of their actions is performed.
//!
//! Aggregations are available as values ([`Aggregations`]) and as pictures ([`picture::flame_graph`], [`picture::HeatMap`]).
//!
//! # Differences on purpose
//!
//! - `normalize` is a signed division: half of -7 is -3. libdtrace prints 9223372036854775804. The same applies to
//!   `%@d` if several aggregations are printed together.
//! - An empty string is shown as an empty string, and a string with characters beyond ASCII is shown as text. libdtrace
//!   prints a dump of their bytes.
//! - `clear` keeps the arguments of an `llquantize`. In libdtrace, `clear` erases them, and the aggregation cannot be
//!   shown any more.
//! - A distribution is shown even if its only non-empty bucket is the very last one.
//! - `%P` shows a port, where FreeBSD's dtrace(1) crashes.
//! - `%T` shows the calendar year. libdtrace shows the year of the week, which differs around New Year.
//! - Widths and precisions end at [`COLUMNS`] columns.

mod aggregate;
mod consume;
mod data;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "pictures")]
pub mod picture;
mod record;
mod sink;
mod unit;

pub use aggregate::distribution::Bucket;
pub use aggregate::entry::Entry;
pub use aggregate::label::{Label, LabelValue};
pub use aggregate::store::Aggregations;
pub use aggregate::table::{Row, Scale, Table};
pub use consume::schedule::{Buffer, Ends, Schedule};
pub use consume::setopt::SetoptError;
pub use consume::{Consumer, Settings, World};
pub use data::argument::Argument;
pub use data::cprintf::{COLUMNS, FloatStyle, Spec};
pub use data::error::{Contradiction, LONGEST, RenderError};
pub use data::format::{Conversion, Format, FormatError, Kind, Piece};
pub use data::place::{Frames, Place};
pub use data::symbol::{Module, NoSymbols, Symbol, Symbols};
pub use data::view::View;
#[cfg(feature = "otlp")]
pub use otlp::{EndpointError, Otlp};
pub use record::compiled::Compiled;
pub use record::description::{AggDescription, Descriptions, Eprobe, Tables};
pub use record::effect::{Order, Request};
pub use record::origin::Origin;
pub use sink::flow::Flow;
pub use sink::message::{DropKind, Drops, ErrorKind, ProbeError};
pub use sink::output::{Kept, Output, Streams};
pub use sink::structured::{Markup, Structured};
pub use sink::text::Text;
pub use sink::{Datum, Firing, Sink};
pub use unit::{Unit, Units};
