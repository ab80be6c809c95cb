//! Errors of consumers' requests.

use core::fmt;

use crate::base::context::ProbeContext;
use crate::control::refused::ProgramError;
use crate::run::consumer::ConsumerId;

/// The reason why a consumer's request was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The framework has no memory yet.
    NotReady,
    /// The caller runs in [probe context](crate::ProbeContext).
    ProbeContext,
    /// The consumer is not open.
    NotOpen(ConsumerId),
    /// The largest number of consumers is open.
    TooManyConsumers {
        /// The largest number of open consumers.
        max: usize,
    },
    /// There is no such CPU.
    NoCpu(usize),
    /// There are not enough enabling control blocks left.
    TooManyEnablings {
        /// The number of needed blocks.
        needed: usize,
        /// The number of free blocks.
        left: usize,
    },
    /// There is not enough memory left, or not in one piece.
    NoMemory {
        /// The needed bytes.
        needed: usize,
        /// The free bytes.
        left: usize,
    },
    /// A buffer of this size holds no record.
    SmallBuffer {
        /// The requested bytes.
        bytes: usize,
        /// Bytes of the longest record.
        least: usize,
    },
    /// The consumer's rights do not suffice.
    NotPermitted,
    /// The consumer has started. Programs and options are accepted before the start, and buffers that are not switched can be
    /// read after the stop.
    Started(ConsumerId),
    /// The option is unknown, or the value is invalid for it.
    BadOption {
        /// Its number.
        option: u32,
        /// The value.
        value: i64,
    },
    /// The program is refused.
    Program(ProgramError),
}

impl fmt::Display for ConsumerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => {
                f.write_str("the framework has no memory yet; the kernel must call init first")
            }
            Self::ProbeContext => write!(f, "{ProbeContext}"),
            Self::NotOpen(id) => write!(f, "consumer {} is not open", id.get()),
            Self::TooManyConsumers { max } => {
                write!(f, "{max} consumers are open, which is the limit; close one")
            }
            Self::NoCpu(cpu) => write!(f, "there is no CPU {cpu}"),
            Self::TooManyEnablings { needed, left } => {
                write!(
                    f,
                    "{needed} probes match, and only {left} more can be enabled; enable fewer"
                )
            }
            // Enough is free, but not in one piece, or the parts are rounded up.
            Self::NoMemory { needed, left } if needed <= left => write!(
                f,
                "{needed} bytes needed, {left} left in several pieces: ask for smaller buffers (-b, -x aggsize) or close a consumer"
            ),
            Self::NoMemory { needed, left } => write!(
                f,
                "{needed} bytes are needed and {left} are left: use smaller buffers (-b, -x \
                 aggsize), or close a consumer"
            ),
            Self::SmallBuffer { bytes, least } => {
                write!(
                    f,
                    "a buffer of {bytes} bytes is too small for a record; use {least} bytes \
                           or more (-b)"
                )
            }
            Self::NotPermitted => f.write_str("DTrace requires additional privileges"),
            Self::Started(id) => write!(
                f,
                "consumer {} has started; load programs and set options before it starts, read \
                 rings after it stops",
                id.get()
            ),
            Self::BadOption { option, value } => {
                write!(f, "option {option} cannot be set to {value}")
            }
            Self::Program(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for ConsumerError {}

impl From<ProgramError> for ConsumerError {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl From<ProbeContext> for ConsumerError {
    fn from(_: ProbeContext) -> Self {
        Self::ProbeContext
    }
}
