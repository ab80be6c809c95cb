//! Standard output and standard error, whose reader may go at any time: `dtrace -l | head -1`.
//!
//! Rust ignores SIGPIPE, so that a write to a pipe without a reader is an error; a command whose reader has gone ends
//! without a word, as other Unix tools do.

use std::fmt::Display;
use std::io::{self, Write};

/// What a shell says of a program that SIGPIPE has killed: 128 and its number.
pub const CLOSED_STATUS: u8 = 141;

/// Why something could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The reader of standard output has gone: no failure of ours, and nobody is there to be told.
    #[error("standard output is closed")]
    Closed,
    /// Standard output cannot be written to.
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

/// Writes to standard output at once.
///
/// # Errors
/// It could not be written.
pub fn print(text: impl Display) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    write!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}

/// Writes to standard error. Nobody to read it is no reason to stop.
pub fn say(text: impl Display) {
    let _ = write!(io::stderr(), "{text}");
}
