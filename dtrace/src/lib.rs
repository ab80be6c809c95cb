//! dtrace(1), as a library and as a command: takes its options, prints what it prints, ends as it ends.
//!
//! # What this is
//!
//! A kernel, or whatever hosts `sdt-framework` and its server, is on the other side of a [`Transport`]; a
//! [`Client`] asks it in `dtrace-protocol`; [`consume`] is what dtrace does from the options to the last line, and
//! [`cli`] the command line. The command is `dtrace --connect ADDRESS`. [`render`] shows what D programs record; nothing
//! brings it such records yet, as programs are refused.
//!
//! # What it is not
//!
//! The framework (`sdt-framework`), the contract with it (`dtrace-protocol`, `dtrace-abi`), the compiler of D
//! (`dtrace-compiler`). It knows no kernel, real or stand-in, and is not for FreeBSD and illumos, which have their own.
//!
//! # Where to read on
//!
//! [`consume::run`] is the whole of a trace; [`transport`] is how another kind of line is added; [`render`] begins with a
//! table of its stages. For how the parts fit, `docs/architecture.md` of the project.
#![forbid(unsafe_code)]
// `output` prints: these panic when the reader has gone.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod clause;
pub mod cli;
pub mod client;
pub mod consume;
mod format;
pub mod key;
pub mod output;
pub mod render;
pub mod transport;
pub mod xoptions;

pub use clause::{Clause, ClauseError};
pub use client::{Client, ClientError};
pub use consume::{DtraceError, Interrupt, Options, Output};
pub use transport::{Address, Protection, Transport, TransportError};
