//! Errors of requests to a kernel.

use std::time::Duration;

use dtrace_protocol::{VERSION, Why};

use crate::budget::OverBudget;
use crate::transport::TransportError;

/// The greatest number of CPUs that dtrace accepts.
pub(super) const CPUS: u32 = 1 << 16;

/// Why a request to a kernel fails.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer has ended, with a message.
    #[error("{0}")]
    Gone(String),
    /// An answer was damaged on the connection.
    #[error("the kernel's answer was damaged on the line; try again")]
    Damaged,
    /// The kernel did not answer within the time limit.
    #[error("the kernel did not answer {request} within {} s", .limit.as_secs())]
    NoAnswer {
        /// The request.
        request: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The peer speaks another version of the protocol.
    #[error(
        "the kernel uses version {0} of the protocol, and this dtrace version {VERSION}; build \
         both from the same release"
    )]
    Version(u32),
    /// The kernel refuses the request.
    #[error("{message}")]
    Refused {
        /// The kind of refusal.
        why: Why,
        /// The kernel's message.
        message: String,
    },
    /// The peer sent the request back instead of an answer.
    #[error(
        "no kernel answers: the peer sent the request itself back, or data of another protocol; turn off the echo of the line, or \
         check the address"
    )]
    Echo,
    /// The kernel exceeds its budget of memory.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// The kernel reports more CPUs than any machine has.
    #[error("the kernel reports {0} CPUs, and dtrace accepts at most {CPUS}")]
    Cpus(u32),
    /// The answer does not fit the request.
    #[error(
        "the kernel's answer to {0} does not belong to this request; check that no other \
             program uses the line"
    )]
    Strange(&'static str),
}

/// Turns the refusal of an unknown object into `None`.
pub(super) fn there<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::Refused { why: Why::NoSuch | Why::NoProbe, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
