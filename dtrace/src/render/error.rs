//! Why data cannot be shown.

use std::io;

use crate::budget::OverBudget;

/// The longest text of one datum, in bytes.
pub const LONGEST: usize = 64 << 20;

/// What is wrong with a record, or with the place it is shown in. The texts are libdtrace's where it has
/// one (dt_error.c).
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A record of an enabled probe that the kernel does not know.
    #[error("Invalid EPID")]
    Epid(u32),
    /// An element of an aggregation that the kernel does not know.
    #[error("Unknown aggregating action")]
    Aggregation(u32),
    /// A datum's size is not one that its action or conversion has, or data are missing.
    #[error("Data record list does not match statement")]
    Mismatch,
    /// A datum is not inside of its record, or a record not inside of its buffer.
    #[error("Data record offset exceeds buffer boundary")]
    Offset,
    /// A format that is none.
    #[error("Undefined printf conversion: {0}")]
    Format(#[from] super::format::FormatError),
    /// The kernel's description differs from the program that this run compiled.
    #[error(
        "the kernel contradicts the program: {0}; dtrace shows none of its records and performs nothing"
    )]
    Contradiction(#[from] super::compiled::Contradiction),
    /// The kernel exceeds its memory.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// The text of one datum is too long.
    #[error("the text of one datum exceeds {LONGEST} bytes")]
    Long,
    /// The kernel stopped tracing for this consumer: it did not answer for too long.
    #[error("Abort due to systemic unresponsiveness")]
    Killed,
    /// `freopen` could not open its file.
    #[error("couldn't freopen() \"{file}\": {why}")]
    Reopen {
        /// The file.
        file: String,
        /// What the system says.
        why: io::Error,
    },
    /// Text could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// What can be said of a datum, or why not.
pub(super) type Result<T = ()> = std::result::Result<T, RenderError>;
