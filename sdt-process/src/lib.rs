#![doc = include_str!("../README.md")]
#![cfg(target_os = "linux")]
#![warn(missing_debug_implementations)]

pub mod breakpoint;
pub mod cpus;
mod fork;
mod functions;
mod hits;
mod image;
mod kept;
mod kernel;
mod lock;
mod memory;
mod ours;
mod process;
mod sandbox;
mod serve;
mod sites;
mod socket;
mod stack;
mod symbols;
mod text;
mod threads;

pub use sdt_framework::{Config, ConsumerError};

pub use process::{Options, Process, StartError};
pub use socket::SocketError;
pub use text::{Refused, Text, TextError};

/// Lets this process be traced, by its user and by root: `dtrace -p PID`. It can be until what this returns is dropped.
///
/// Probes are attached, a thread is started that answers consumers, and nothing changes until somebody enables a probe.
/// Before it, whoever else wants to handle SIGTRAP has installed their handler; what is not ours is passed on to it.
///
/// # Errors
/// See [`StartError`]. A program that works without being traced goes on.
pub fn start() -> Result<Process, StartError> {
    Options::new().start()
}
