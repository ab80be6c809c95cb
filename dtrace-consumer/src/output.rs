//! Standard output and standard error, whose reader may close them at any time: `dtrace -l | head -1`.
//!
//! Rust ignores SIGPIPE, so a write to a pipe without a reader is an error. dtrace then ends without a message, as other Unix
//! tools do.

use std::fmt::Display;
use std::io::{self, Write};

/// Exit status after the reader of standard output has closed it: 128 and the number of SIGPIPE.
pub const CLOSED_STATUS: u8 = 141;

/// Why text cannot be printed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The reader of standard output has closed it. This is no failure, and no message can reach the reader.
    #[error("standard output is closed")]
    Closed,
    /// Writing to standard output failed.
    #[error("failed to write to <stdout>: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}

/// Writes to standard output, and flushes it.
///
/// # Errors
/// Writing failed.
pub fn print(text: impl Display) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    write!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}

/// Writes to standard error. Errors are ignored: dtrace continues if standard error is closed.
pub fn say(text: impl Display) {
    let _ = write!(io::stderr(), "{text}");
}
