//! Why data cannot be shown.

use std::io;
use std::path::PathBuf;

use crate::budget::OverBudget;

/// The longest text of one datum, in bytes.
pub const LONGEST: usize = 64 << 20;

/// The difference between a kernel's description and the compiled program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// No clause of this run has such records.
    #[error("enabled probe {epid} belongs to no clause of the program")]
    Clause {
        /// The number of the enabled probe.
        epid: u32,
    },
    /// The clause is for other probes.
    #[error("enabled probe {epid} is {probe}, which is not matched by its clause")]
    Probe {
        /// The number of the enabled probe.
        epid: u32,
        /// The probe that the kernel names.
        probe: String,
    },
    /// The clause has other records.
    #[error("the records of enabled probe {epid} differ from the actions of its clause")]
    Record {
        /// The number of the enabled probe.
        epid: u32,
    },
    /// No statement of this run aggregates like this.
    #[error("aggregation {0} differs from the aggregations of the program")]
    Aggregation(u32),
    /// A statement without permission has recorded data of a destructive action.
    #[error(
        "enabled probe {epid} has recorded {name}( ), but destructive actions are not allowed (-w)"
    )]
    NotAllowed {
        /// The number of the enabled probe.
        epid: u32,
        /// The function of D.
        name: &'static str,
    },
    /// A record names another aggregation than its statement.
    #[error("a record of enabled probe {epid} names another aggregation than its statement")]
    Variable {
        /// The number of the enabled probe.
        epid: u32,
    },
}

/// Why a record or an aggregation cannot be shown. The texts are those of libdtrace, if it has the error (dt_error.c).
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The kernel has no enabled probe with the number in a record.
    #[error("Invalid EPID")]
    Epid(u32),
    /// The kernel has no aggregation with the number in an element.
    #[error("Unknown aggregating action")]
    Aggregation(u32),
    /// The size of a datum does not fit its action or conversion, or data are missing.
    #[error("Data record list does not match statement")]
    Mismatch,
    /// A datum is outside of its record, or a record outside of its buffer.
    #[error("Data record offset exceeds buffer boundary")]
    Offset,
    /// A format is malformed.
    #[error("Undefined printf conversion: {0}")]
    Format(#[from] crate::render::data::format::FormatError),
    /// The kernel's description differs from the program that this run compiled.
    #[error(
        "the records contradict the program: {0}; dtrace discards them and performs none of their \
         actions"
    )]
    Contradiction(#[from] Contradiction),
    /// The kernel exceeds its budget of memory.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// The text of one datum is too long.
    #[error("the text of one datum exceeds {LONGEST} bytes")]
    Long,
    /// The kernel closed this consumer's session, because it received no request for too long.
    #[error("Abort due to systemic unresponsiveness")]
    Killed,
    /// `freopen` cannot open its file.
    #[error("couldn't freopen() \"{file}\": {why}")]
    Reopen {
        /// The file.
        file: String,
        /// The error of the system.
        why: io::Error,
    },
    /// A picture cannot be drawn.
    #[error("{}: {error}", .file.display())]
    Picture {
        /// The picture's file.
        file: PathBuf,
        /// The error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// A result of rendering.
pub(in crate::render) type Result<T = ()> = std::result::Result<T, RenderError>;
