//! The errors of a console.

use core::fmt;

use dtrace_abi::spec::SpecError;

use crate::base::context::ProbeContext;
use crate::control::error::ConsumerError;

/// The reason why a [`Console`](super::Console) did not execute a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The line is not a known command.
    Usage,
    /// A probe description is malformed.
    Spec(SpecError),
    /// A probe description matches no probe.
    NoMatch {
        /// The number of the description in the line, from 1.
        description: usize,
    },
    /// The framework refused the request.
    Refused(ConsumerError),
    /// Writing to the console failed.
    Write(fmt::Error),
}

impl From<ConsumerError> for ConsoleError {
    fn from(error: ConsumerError) -> Self {
        Self::Refused(error)
    }
}

impl From<ProbeContext> for ConsoleError {
    fn from(error: ProbeContext) -> Self {
        Self::Refused(error.into())
    }
}

impl From<fmt::Error> for ConsoleError {
    fn from(error: fmt::Error) -> Self {
        Self::Write(error)
    }
}

impl fmt::Display for ConsoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => f.write_str("-l, -n provider:module:function:name, -l -n ..., or stop"),
            Self::Spec(error) => error.fmt(f),
            Self::NoMatch { description } => {
                write!(
                    f,
                    "description {description} of the line matches no probe; -l lists all probes"
                )
            }
            Self::Refused(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write to the console: {error}"),
        }
    }
}

impl core::error::Error for ConsoleError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Usage | Self::NoMatch { .. } => None,
            Self::Spec(error) => error.source(),
            Self::Refused(error) => error.source(),
            Self::Write(error) => Some(error),
        }
    }
}
