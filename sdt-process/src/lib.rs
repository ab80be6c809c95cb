#![doc = include_str!("../README.md")]
#![cfg(target_os = "linux")]
#![warn(missing_debug_implementations)]

mod available;
mod borrowed;
pub mod breakpoint;
mod clock;
mod connection;
mod descriptor;
mod errno;
mod error;
mod fork;
mod framework;
mod function;
mod hit;
mod identity;
mod image;
mod kernel;
mod lock;
mod memory;
mod obstacle;
mod options;
mod own_stack;
mod pages;
mod parent;
mod proc_file;
mod process;
mod program;
mod raw_load;
mod refused;
mod reserve;
mod rseq;
mod sampling;
mod sandbox;
mod server;
mod shutdown;
mod site_functions;
mod sites;
mod slots;
mod socket;
mod stack;
mod stack_block;
mod state;
mod symbols;
mod text;
mod text_access;
mod threads;
mod worker;

pub use sdt_framework::{Config, ConsumerError};

pub use error::StartError;
pub use options::Options;
pub use process::Process;
pub use refused::{Refused, TextError};
pub use socket::SocketError;
pub use text::Text;

/// Lets this process be traced by its user and by root, with `dtrace -p PID`, until the returned [`Process`] is dropped.
///
/// This attaches the probes and starts a thread that serves consumers. No text changes until a consumer enables a probe. If the program
/// handles SIGTRAP itself, it must install its handler before the start; SIGTRAPs that no site raised are passed on to it.
///
/// If `dtrace -c` has started the program, this returns when that `dtrace` traces it, so that nothing is missed.
///
/// # Errors
/// See [`StartError`]. A program that also works without being traced can go on.
pub fn start() -> Result<Process, StartError> {
    Options::new().start()
}
