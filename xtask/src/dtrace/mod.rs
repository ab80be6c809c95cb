//! dtrace(1) for the stand-in kernel: takes its options, prints what it prints.

mod clause;
mod format;
mod tracer;
pub mod xoptions;

pub use clause::{Clause, ClauseError};
pub use tracer::{DtraceError, Interrupt, Options, Output, run};
