//! Why a run fails.

use std::io;
use std::path::PathBuf;

use dtrace_compiler::Error;

use super::workload::WorkloadError;
use crate::client::ClientError;
use crate::output::OutputError;
use crate::render::RenderError;
use crate::trace::TraceError;
use crate::transport::Peer;

/// Why dtrace ends with status 1.
#[derive(Debug, thiserror::Error)]
pub enum DtraceError {
    /// The compiler refuses a program.
    #[error(transparent)]
    Compile(#[from] Box<CompileError>),
    /// A program cannot be read or preprocessed.
    #[error("{0}")]
    Read(String),
    /// The command line has no program.
    #[error("no probes specified")]
    NoProgram,
    /// The programs match no probes, and `-Z` does not allow that.
    #[error("no probes matched")]
    NoMatch,
    /// The kernel refuses a program.
    #[error("failed to enable '{name}': {error}")]
    Enable {
        /// The program's name in messages.
        name: String,
        /// The error.
        error: TraceError,
    },
    /// The kernel stopped answering after probes were enabled.
    #[error(
        "{0}. Since then probes are enabled: if the kernel hangs, check that its breakpoint handler passes each breakpoint to \
         resume_address, and continues at the returned address"
    )]
    Silent(Box<DtraceError>),
    /// The kernel refuses to start tracing.
    #[error("could not enable tracing: {0}")]
    Go(#[source] TraceError),
    /// The process to trace exited before tracing began.
    #[error("{0}")]
    Exited(String),
    /// A program has a destructive action without `-w`.
    #[error("could not enable tracing: Destructive actions not allowed")]
    Destructive,
    /// The functions of the kernel's file cannot be traced.
    #[error("--kernel {}: {why}", .file.display())]
    Functions {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// An error of one of several kernels.
    #[error("{name}: {error}")]
    Host {
        /// The kernel's name.
        name: String,
        /// Its error.
        error: Box<DtraceError>,
    },
    /// An option for one kernel was used with several.
    #[error("-A, -a and pictures support one kernel at a time: use --connect once")]
    OneKernel,
    /// `--otlp` in a build without it.
    #[cfg(not(feature = "otlp"))]
    #[error(
        "--otlp is not part of this dtrace: install it with `cargo install dtrace-consumer --features otlp`"
    )]
    NoOtlp,
    /// The URL of a collector cannot be used.
    #[cfg(feature = "otlp")]
    #[error(transparent)]
    Otlp(#[from] crate::render::EndpointError),
    /// A record cannot be shown.
    #[error("processing aborted: {0}")]
    Render(#[source] RenderError),
    /// The kernel or the connection failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The workload failed.
    #[error(transparent)]
    Workload(WorkloadError),
    /// A file cannot be opened for writing.
    #[error("failed to open output file '{}': {}", .file.display(), crate::system::reason(.error))]
    File {
        /// The file.
        file: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A picture cannot be drawn.
    #[error("{}: {error}", .file.display())]
    Picture {
        /// The picture's file.
        file: PathBuf,
        /// The error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Standard output is closed, or writing to it failed.
    #[error("{0}")]
    Write(#[source] OutputError),
}

impl DtraceError {
    /// Returns the compiler's error, also if it is one of several kernels.
    pub fn compile_error(&self) -> Option<&CompileError> {
        match self {
            Self::Compile(error) => Some(error),
            Self::Host { error, .. } => error.compile_error(),
            _ => None,
        }
    }

    /// Returns hints how to correct the command line or the program. dtrace(1) prints none.
    pub fn hints(&self) -> Vec<&str> {
        match self {
            Self::Compile(error) => error.hints.iter().map(String::as_str).collect(),
            Self::Host { error, .. } => error.hints(),
            Self::NoProgram => {
                vec!["-n PROBE enables probes, -s FILE runs a script, -l lists probes"]
            }
            Self::Destructive => vec!["-w permits destructive actions"],
            _ => Vec::new(),
        }
    }

    /// Returns whether the peer closed the connection while the programs were enabled or started.
    pub(super) fn is_end_of_line(&self) -> bool {
        matches!(self, Self::Enable { error, .. } | Self::Go(error) if error.is_end_of_line())
    }

    /// Suggests a cause if the kernel has not answered in time, and the reason may be that its probes are enabled.
    pub(super) fn after_enabling(self) -> Self {
        let unanswered = match &self {
            Self::Enable { error: TraceError::Client(error), .. }
            | Self::Go(TraceError::Client(error))
            | Self::Client(error) => {
                matches!(error, ClientError::NoAnswer { peer: Peer::Kernel, .. })
            }
            _ => false,
        };
        if unanswered { Self::Silent(self.into()) } else { self }
    }

    /// Names the kernel that has failed, if it has a name. Errors of the output belong to no kernel.
    pub(super) fn of(self, name: Option<&str>) -> Self {
        match (self, name) {
            (error @ (Self::Write(_) | Self::NoProgram | Self::NoMatch), _) | (error, None) => {
                error
            }
            (error, Some(name)) => Self::Host { name: name.to_owned(), error: Box::new(error) },
        }
    }
}

impl From<io::Error> for DtraceError {
    fn from(error: io::Error) -> Self {
        Self::Write(error.into())
    }
}

impl From<RenderError> for DtraceError {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Write(error) => error.into(),
            RenderError::Picture { file, error } => Self::Picture { file, error },
            error => Self::Render(error),
        }
    }
}

impl From<TraceError> for DtraceError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Client(error) => Self::Client(error),
            TraceError::Render(error) => error.into(),
            error => Self::Go(error),
        }
    }
}

/// An error of the compiler with the program that it is in.
#[derive(Debug)]
pub struct CompileError {
    /// The failed operation, such as `failed to compile script X` or `invalid probe specifier X`.
    pub what: String,
    /// The compiler's error.
    pub error: Box<Error>,
    /// Whether the error's tag is printed (`-x errtags`).
    pub tagged: bool,
    /// How to correct the program: a similar name, the values of an option, why functions cannot be traced.
    pub hints: Vec<String>,
    pub(super) frame: Option<String>,
}

impl CompileError {
    /// Returns the source line with a mark under the error.
    pub fn frame(&self) -> Option<&str> {
        self.frame.as_deref()
    }
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tagged {
            true => write!(f, "{}: {}", self.what, self.error.with_tag()),
            false => write!(f, "{}: {}", self.what, self.error),
        }
    }
}

impl std::error::Error for CompileError {}
