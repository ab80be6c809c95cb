//! Errors of the operating system as text.

use std::io;

/// Returns the system's words for an error, without the number that Rust adds.
pub(crate) fn reason(error: &io::Error) -> String {
    words(&error.to_string()).to_owned()
}

/// Returns the text of an error without the number that Rust adds to the system's words.
pub(crate) fn words(text: &str) -> &str {
    text.split(" (os error ").next().unwrap_or_default()
}
