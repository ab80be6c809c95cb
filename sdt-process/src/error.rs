//! Why a process cannot be traced.

use std::collections::TryReserveError;
use std::io;

use sdt_core::attach::{AttachError, DetachError};
use sdt_core::ops::FrameworkError;
use sdt_framework::InitError;

use crate::refused::TextError;
use crate::socket::SocketError;

/// The reason why [`start`](crate::start) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// This process is traced already, or the thread of an earlier [`Process`](crate::Process) has not ended yet.
    #[error(
        "sdt_process is already started in this process; start it once, and keep the Process that \
         start() returns"
    )]
    Started,
    /// This process is the child of a `fork` that could not wait for the other threads of its parent, or of `_Fork`.
    #[error(
        "this process cannot be traced: it was forked while other threads of its parent changed the tracing state; execute a program \
         in it, or fork outside of signal handlers and Rules"
    )]
    Forked,
    /// The shared object that contains this crate cannot be kept loaded.
    #[error(
        "the shared object that contains sdt_process cannot be kept loaded: {0}; link it with -z nodelete"
    )]
    Library(String),
    /// The records of the probes are inconsistent, or there are more than the configuration has room for.
    #[error("the probes of this program cannot be attached: {0}")]
    Attach(AttachError),
    /// The probes are still attached to the framework of the parent process.
    #[error(
        "the probes of this forked process cannot be detached from the framework of its parent: {0}"
    )]
    Detach(DetachError),
    /// The framework does not accept the configuration.
    #[error(
        "the framework does not accept this configuration: {0}; change it with Options::config"
    )]
    Config(InitError),
    /// There is too little memory for the configuration and the number of slots.
    #[error(
        "cannot allocate {bytes} bytes for tables and buffers: {source}; reduce them with \
         Options::config and Options::slots"
    )]
    Memory {
        /// The number of bytes.
        bytes: usize,
        /// The error of the allocator.
        source: TryReserveError,
    },
    /// The providers `dtrace` and `profile` cannot be registered.
    #[error("the providers dtrace and profile cannot be registered: {0}")]
    Own(FrameworkError),
    /// The system does not allow the process to change its text.
    #[error("this process cannot change its own text: {0}; build the program with SDT_PATCH=gate")]
    Text(#[source] TextError),
    /// `/proc/self/pagemap` or `/proc/self/maps` cannot be opened. Without them, a program in D could block on a page
    /// that is not in memory.
    #[error(
        "/proc/self/pagemap or /proc/self/maps cannot be opened: {0}; mount /proc, and start before the process is made undumpable"
    )]
    Pages(#[source] io::Error),
    /// The socket cannot be created.
    #[error("the socket for dtrace cannot be created: {0}")]
    Socket(#[from] SocketError),
    /// The thread that serves consumers cannot be started.
    #[error("the thread that serves dtrace cannot be started: {0}")]
    Thread(#[source] io::Error),
}
