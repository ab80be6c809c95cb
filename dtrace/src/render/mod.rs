//! What kernels record, as dtrace(1) shows it.
//!
//! | stage | from | to | libdtrace's file |
//! |---|---|---|---|
//! | [`Schedule`] | buffers of CPUs | records in order | dt_consume.c |
//! | [`Consumer`] | records, aggregation buffers | data with their kinds; `clear`, `trunc`, `setopt` done | dt_consume.c, dt_aggregate.c, dt_handle.c |
//! | [`Sink`] | those | whatever it is: [`Text`] is dtrace(1)'s form | dtrace.c, dt_printf.c, dt_print.c |
//! | | | [`Structured`]: JSON or XML in FreeBSD's schema | dt_oformat.h |
//! | | | [`picture::Perfetto`]: a timeline for the Perfetto UI | |
//! | [`Output`] | text, [`Order`]s | files; `system`, `freopen` done | dt_printf.c |
//!
//! What is asked on the way: a kernel for [`Descriptions`] of its records, [`Symbols`] for what stands at
//! addresses, the compiler's types for `print`. Everything that comes from a kernel is taken as bytes of
//! others: what does not fit is an error, and what is shown is bounded.
//!
//! What a record means is decided by the programs that this run compiled ([`Compiled`]): a kernel that describes it
//! otherwise is an error, and only a statement of these programs has something done on this machine ([`Order`]). What
//! others enabled (`-a`, a dump) is shown by its descriptions, and nothing of it is done.
//!
//! What has been aggregated can be had as Rust's own values ([`Aggregations`]), and as a picture
//! ([`picture::flame_graph`], [`picture::HeatMap`]).
//!
//! # Differences on purpose
//!
//! - `normalize` divides with the sign: half of -7 is -3, where libdtrace says 9223372036854775804; so does
//!   `%@d` where several aggregations are printed together.
//! - An empty string is shown as an empty string, and one with characters beyond ASCII as that string,
//!   where libdtrace dumps their bytes.
//! - `clear` leaves an `llquantize` its arguments, without which libdtrace cannot show it any more.
//! - A distribution whose only value is in the last bucket of all shows it.
//! - `%P` shows a port, where FreeBSD's dtrace(1) crashes.
//! - `%T` shows the calendar's year, where libdtrace shows that of the week, which is another one around New Year.
//! - Widths and precisions end at [`COLUMNS`] columns.

mod aggregate;
mod bits;
mod bytes;
mod compiled;
mod consume;
mod cprintf;
mod description;
mod distribution;
mod document;
mod effect;
mod error;
mod flow;
mod format;
mod message;
mod output;
#[cfg(feature = "pictures")]
pub mod picture;
mod place;
mod schedule;
mod setopt;
mod sink;
mod structured;
mod symbol;
mod text;
mod time;
mod typed;
mod value;
mod view;

pub use aggregate::{Aggregations, Entry, Row, Scale, Table};
pub use compiled::{Compiled, Contradiction};
pub use consume::{Consumer, Settings, World};
pub use cprintf::{COLUMNS, FloatStyle, Spec};
pub use description::{AggDescription, Descriptions, Eprobe, Tables};
pub use effect::{Order, Request};
pub use error::{LONGEST, RenderError};
pub use flow::Flow;
pub use format::{Conversion, Format, FormatError, Kind, Piece};
pub use message::{DropKind, Drops, ErrorKind, ProbeError};
pub use output::{Kept, Output, Streams};
pub use place::Place;
pub use schedule::{Buffer, Ends, Schedule};
pub use setopt::SetoptError;
pub use sink::{Datum, Firing, Sink};
pub use structured::{Markup, Structured};
pub use symbol::{Module, NoSymbols, Symbol, Symbols};
pub use text::Text;
pub use value::Argument;
pub use view::View;
