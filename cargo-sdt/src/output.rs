//! Standard output and standard error, whose reader may close them at any time: `cargo xtask check FILE | head -1`.
//!
//! Rust ignores SIGPIPE, so that a write to a pipe without a reader is an error, on which `println!` panics. All commands print
//! by this module, and end silently if the reader has closed their output, like other Unix tools.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit status that a shell reports for a program that SIGPIPE killed: 128 plus the number of the signal.
pub const CLOSED_STATUS: u8 = 141;

/// The output could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The reader closed standard output, which is no failure.
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

/// Writes to standard output, and flushes it.
///
/// # Errors
/// The text could not be written.
pub fn print(text: impl Display) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    write!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}

/// Writes a line to standard output, and flushes it.
///
/// # Errors
/// The text could not be written.
pub fn line(text: impl Display) -> Result<(), OutputError> {
    print(format_args!("{text}\n"))
}

/// Writes to standard error. Ignores errors, so that a command continues if standard error is closed.
pub fn say(text: impl Display) {
    let _ = write!(io::stderr(), "{text}");
}

/// Prints the error that ends a program, and returns its exit status. If standard output is closed, prints nothing.
pub fn failure(program: &str, error: &anyhow::Error) -> ExitCode {
    if is_closed(error) {
        return ExitCode::from(CLOSED_STATUS);
    }
    say(format_args!("{program}: {}\n", message(error)));
    ExitCode::FAILURE
}

/// Returns whether standard output was closed.
fn is_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(OutputError::Closed)))
}

/// Returns an error with its causes, except those whose text it contains.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
#[path = "../tests/unit/output.rs"]
mod tests;
