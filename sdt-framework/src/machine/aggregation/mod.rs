//! Aggregations: functions of many values, each by keys.
//!
//! [`Function`] is what is done with a value; [`Buffer`] holds, on one CPU, what there is of every tuple of
//! keys. Both work on words in memory of the caller's, in the layout of dtrace.c, which is what a consumer
//! reads.
#![forbid(unsafe_code)]

mod buffer;
mod function;

pub use buffer::{Buffer, Entry};
pub use function::{BadArgument, Function};
