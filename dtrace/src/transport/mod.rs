//! Ways to a kernel: byte streams that `dtrace-protocol` is spoken over.

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

use std::io;
use std::time::Duration;

pub use address::{Address, AddressError, Protection};
pub use line::Line;
pub use process::ProcessError;
pub use secure::{Secure, SecureError};

/// A byte stream to a kernel, or to who passes on what is meant for it.
pub trait Transport: Send {
    /// Takes what has arrived, waiting for it so long at most. 0: nothing has, or a signal came.
    ///
    /// # Errors
    /// The stream has ended or failed.
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError>;

    /// Sends all of the bytes.
    ///
    /// # Errors
    /// The stream has ended or failed, or does not take them within the limit.
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

/// Why nothing goes over a stream any more.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The other side has ended it.
    #[error("the line to the kernel is closed{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Closed(Option<String>),
    /// The other side takes nothing.
    #[error("the line to the kernel takes nothing for {} s", .0.as_secs())]
    Stuck(Duration),
    /// On a line with a key: bytes that the kernel has not sent, or not so.
    #[error(
        "what came over the line was not sent so by the kernel: somebody changes it, or it lost something"
    )]
    Forged,
    /// Reading or writing failed.
    #[error("the line to the kernel failed: {0}")]
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
