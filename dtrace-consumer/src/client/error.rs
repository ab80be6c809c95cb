//! Errors of requests to a kernel.

use std::ops::RangeInclusive;
use std::time::Duration;

use dtrace_protocol::{VERSION, Why};

use crate::budget::OverBudget;
use crate::transport::{Peer, Stopped, TransportError};

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
    #[error("an answer was damaged on the line; try again")]
    Damaged,
    /// The peer did not answer within the time limit.
    #[error(
        "{peer} did not answer {request} within {} s{}", .limit.as_secs(), .stopped.map(|how| format!(": it {how}")).unwrap_or_default()
    )]
    NoAnswer {
        /// The peer.
        peer: Peer,
        /// How the peer is stopped, if it is a stopped process.
        stopped: Option<Stopped>,
        /// The request.
        request: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The peer speaks another version of the protocol.
    #[error(
        "{peer} uses version {version} of the protocol, and this dtrace version {VERSION}; build \
         both from the same release"
    )]
    Version {
        /// The peer.
        peer: Peer,
        /// Its version.
        version: u32,
    },
    /// The peer refuses the value of an option.
    #[error("option {name} cannot be set to {value}{}", .values.as_ref().map(|all| format!("; its values are {} to {}", all.start(), all.end())).unwrap_or_default())]
    Option {
        /// The name of the option, as `-x` has it.
        name: &'static str,
        /// The refused value.
        value: i64,
        /// The values that the peer accepts, if dtrace knows them.
        values: Option<RangeInclusive<i64>>,
    },
    /// The peer refuses the request.
    #[error("{message}")]
    Refused {
        /// The kind of refusal.
        why: Why,
        /// Its message.
        message: String,
    },
    /// The peer sent the request back instead of an answer.
    #[error(
        "no kernel answers: the peer sent the request itself back, or data of another protocol; turn off the echo of the line, or \
         check the address"
    )]
    Echo,
    /// The peer exceeds its budget of memory.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// The peer reports more CPUs than any machine has.
    #[error("the peer reports {0} CPUs, and dtrace accepts at most {CPUS}")]
    Cpus(u32),
    /// The answer does not fit the request.
    #[error(
        "the answer to {0} does not belong to this request; check that no other \
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
