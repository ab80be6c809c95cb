//! dtrace(1) as a library and as a command, with the same options, output and exit status.
//!
//! # What this is
//!
//! A [`Transport`] connects to a kernel, or another host of `sdt-framework` and its server. A [`Client`] sends requests
//! in `dtrace-protocol`. A [`Trace`] compiles D programs, enables them, and becomes [`Running`]. [`render`] prints
//! their records. [`consume`] is a whole run of dtrace, from the options to the last line of output, and [`cli`] is the
//! command line. The command is `dtrace --connect ADDRESS`.
//!
//! | feature | what it adds | with |
//! |---|---|---|
//! | none | [`Client`] and [`Transport`]: probes, buffers | |
//! | `render` | [`Trace`], [`render`]: traces with D programs; [`postmortem`]: reads dumps | `dtrace-compiler`, `object` |
//! | `functions` | [`functions`]: the functions of an ELF file, and where they can be traced | `iced-x86` |
//! | `pictures` | flame graphs, heat maps, timelines | `inferno`, `plotters` |
//! | `otlp` | metrics and logs for an OpenTelemetry collector | `opentelemetry-proto`, `ureq` |
//! | `cli` | the command | `clap` |
//!
//! # What it is not
//!
//! It does not contain the framework (`sdt-framework`), the contract with it (`dtrace-protocol`, `dtrace-abi`), or the
//! D compiler (`dtrace-compiler`). It depends on no particular kernel, and does not trace FreeBSD and illumos, which
//! have their own dtrace.
//!
//! # Where to read on
//!
//! [`trace`] and `examples/` have examples. [`consume::run`] is a whole command, and [`transport`] explains how to add
//! another kind of line. [`render`] begins with a table of its stages. `docs/architecture.md` of the project explains
//! how the parts work together.
#![forbid(unsafe_code)]
// Use `output` to print: these macros panic if the reader has closed the pipe.
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
#[cfg(all(feature = "render", target_os = "linux"))]
pub mod objects;
#[cfg(all(feature = "render", not(target_os = "linux")))]
#[path = "objects_none.rs"]
pub mod objects;
pub mod output;
#[cfg(feature = "render")]
pub mod postmortem;
#[cfg(feature = "render")]
pub mod render;
#[cfg(feature = "functions")]
mod signature;
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
pub use transport::{Address, Peer, Protection, Transport, TransportError};
