//! What can go wrong with a kernel.

use std::time::Duration;

use dtrace_protocol::{VERSION, Why};

use crate::budget::OverBudget;
use crate::transport::TransportError;

/// Most CPUs of a machine.
pub(super) const CPUS: u32 = 1 << 16;

/// What can go wrong with a kernel.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing goes over the line any more.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The other side has come to an end, and says how.
    #[error("{0}")]
    Gone(String),
    /// An answer was damaged on the line.
    #[error("an answer of the kernel's was damaged on the line; try again")]
    Damaged,
    /// No answer in time.
    #[error("the kernel did not answer {request} within {} s", .limit.as_secs())]
    NoAnswer {
        /// What was asked.
        request: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The two sides do not understand each other.
    #[error(
        "the kernel speaks version {0} of the protocol, this dtrace version {VERSION}; build one of them again"
    )]
    Version(u32),
    /// The kernel refused.
    #[error("{message}")]
    Refused {
        /// Of which kind.
        why: Why,
        /// What is wrong with what.
        message: String,
    },
    /// What came back for the first request is no kernel's answer.
    #[error(
        "there is no kernel that answers: what comes back is the request itself, or nothing that \
         this dtrace knows; turn the line's echo off, or look who is on the other side"
    )]
    Echo,
    /// The kernel would have dtrace keep more than it keeps of one.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// It has more CPUs than any machine.
    #[error("the kernel says that it has {0} CPUs, of which dtrace takes {CPUS} at most")]
    Cpus(u32),
    /// The kernel answered something else.
    #[error("the kernel answered {0} with something else")]
    Strange(&'static str),
}

/// What a kernel knows, or that it does not.
pub(super) fn there<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::Refused { why: Why::NoSuch | Why::NoProbe, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
