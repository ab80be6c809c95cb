//! dtrace(1), as a library and as a command: takes its options, prints what it prints, ends as it ends.
//!
//! A kernel, or whatever hosts `sdt-framework` and its server, is on the other side of a [`Transport`]; a
//! [`Client`] asks it in `dtrace-protocol`; [`consume`] is what dtrace does from the options to the last line, and
//! [`cli`] the command line. [`render`] shows what D programs record. The command is `dtrace --connect ADDRESS`.
//!
//! What this is not: the framework (`sdt-framework`), the contract with it (`dtrace-protocol`, `dtrace-abi`), the
//! compiler of D (`dtrace-compiler`). It knows no kernel, real or stand-in.
#![forbid(unsafe_code)]
// `output` prints: these panic when the reader has gone.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod clause;
pub mod cli;
pub mod client;
pub mod consume;
mod format;
pub mod output;
pub mod render;
pub mod transport;
pub mod xoptions;

pub use clause::{Clause, ClauseError};
pub use client::{Client, ClientError};
pub use consume::{DtraceError, Interrupt, Options, Output};
pub use transport::{Address, Transport, TransportError};
