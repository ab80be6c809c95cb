//! Aggregations: functions of many values, each by keys.
//!
//! [`Function`] is an aggregating function; [`Buffer`] contains the values of one CPU by their keys. Both use words in memory of
//! the caller, in the layout of dtrace.c, which consumers read.
#![forbid(unsafe_code)]

mod buffer;
mod function;

pub use buffer::{Buffer, Entry};
pub use function::{BadArgument, Function};
