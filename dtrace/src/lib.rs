//! dtrace(1), as a library and as a command: takes its options, prints what it prints, ends as it ends.
//!
//! # What this is
//!
//! A kernel, or whatever hosts `sdt-framework` and its server, is on the other side of a [`Transport`]; a
//! [`Client`] asks it in `dtrace-protocol`; a [`Trace`] compiles programs of D and hands them over, and is
//! [`Running`] then; [`render`] shows what they record; [`consume`] is what dtrace does from the options to the last line,
//! and [`cli`] the command line. The command is `dtrace --connect ADDRESS`.
//!
//! | feature | what it adds | with |
//! |---|---|---|
//! | none | [`Client`] and [`Transport`]: probes, buffers | |
//! | `render` | [`Trace`], [`render`]: D in, typed records and text out; [`postmortem`]: out of a dump | `dtrace-compiler`, `object` |
//! | `functions` | [`functions`]: the functions of an ELF file, and where they can be traced | `iced-x86` |
//! | `pictures` | flame graphs, heat maps, timelines | `inferno`, `plotters` |
//! | `cli` | the command | `clap` |
//!
//! # What it is not
//!
//! The framework (`sdt-framework`), the contract with it (`dtrace-protocol`, `dtrace-abi`), the compiler of D
//! (`dtrace-compiler`). It knows no kernel, real or stand-in, and is not for FreeBSD and illumos, which have their own.
//!
//! # Where to read on
//!
//! [`trace`] has an example, and so has `examples/`; [`consume::run`] is the whole of a command; [`transport`] is how
//! another kind of line is added; [`render`] begins with a table of its stages. For how the parts fit,
//! `docs/architecture.md` of the project.
#![forbid(unsafe_code)]
// `output` prints: these panic when the reader has gone.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod budget;
#[cfg(feature = "cli")]
pub mod cli;
pub mod client;
#[cfg(feature = "cli")]
pub mod command;
#[cfg(feature = "cli")]
pub mod consume;
#[cfg(feature = "cli")]
mod cpp;
pub mod escape;
#[cfg(feature = "cli")]
mod format;
#[cfg(feature = "functions")]
pub mod functions;
#[cfg(feature = "cli")]
mod help;
#[cfg(feature = "render")]
pub mod hosts;
#[cfg(feature = "cli")]
pub mod job;
#[cfg(feature = "render")]
pub mod kernel;
pub mod key;
pub mod output;
#[cfg(feature = "render")]
pub mod postmortem;
#[cfg(feature = "render")]
pub mod render;
mod system;
#[cfg(feature = "render")]
pub mod trace;
pub mod transport;

pub use client::{Client, ClientError};
#[cfg(feature = "cli")]
pub use consume::{DtraceError, Interrupt};
#[cfg(feature = "render")]
pub use dtrace_compiler as compiler;
#[cfg(feature = "cli")]
pub use job::Job;
#[cfg(feature = "render")]
pub use trace::{Running, Trace, TraceError};
pub use transport::{Address, Protection, Transport, TransportError};
