//! Transports: byte streams to a kernel, which carry `dtrace-protocol`.

mod address;
mod child;
mod line;
mod patient;
#[cfg(target_os = "linux")]
mod peer;
#[cfg(target_os = "linux")]
mod process;
#[cfg(not(target_os = "linux"))]
#[path = "process_none.rs"]
mod process;
mod secure;
mod serial;
mod stopped;

use std::io;
use std::time::Duration;

pub use address::{Address, AddressError, Peer, Protection};
pub use line::Line;
pub use process::ProcessError;
pub use secure::{Secure, SecureError};
pub use stopped::Stopped;

/// A byte stream to a kernel, or to a program that forwards the bytes to it.
pub trait Transport: Send {
    /// Reads the bytes that have arrived, and waits at most `wait` for the first one. Returns 0 if none has arrived, or a signal
    /// has interrupted the wait.
    ///
    /// # Errors
    /// The stream has ended or failed.
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError>;

    /// Writes all bytes.
    ///
    /// # Errors
    /// The stream has ended or failed, or the peer does not read the bytes within the limit.
    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError>;
}

impl Transport for Box<dyn Transport> {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError> {
        (**self).read(buffer, wait)
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        (**self).write(bytes, limit)
    }
}

/// Why a transport fails.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The peer has closed the connection.
    #[error("the connection is closed{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Closed(Option<String>),
    /// The peer does not read.
    #[error("the peer has read nothing from the connection for {} s", .0.as_secs())]
    Stuck(Duration),
    /// An encrypted message is not authentic.
    #[error(
        "message authentication failed: data were changed or lost on the line; \
         connect again"
    )]
    Forged,
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for TransportError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::UnexpectedEof => Self::Closed(None),
            _ => Self::Failed(error),
        }
    }
}
