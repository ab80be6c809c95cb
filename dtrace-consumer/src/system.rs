//! Errors of the operating system as text.

use std::io;

/// Returns the system's words for an error, without the number that Rust adds.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}
