//! Why a dump cannot be read.

use std::path::PathBuf;

use dtrace_abi::postmortem::VERSION;

use super::image::ImageError;

/// Why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", .file.display())]
pub struct DumpError {
    /// The dump's file.
    pub file: PathBuf,
    /// The reason.
    pub kind: DumpErrorKind,
}

/// The reasons why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpErrorKind {
    /// The file cannot be read, or is no dump.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The dump has no framework.
    #[error(
        "no sdt-framework found in this dump{}; check that the dump contains the framework's memory",
        if *.is_cut { ", which is shorter than its headers say" } else { "" }
    )]
    None {
        /// Whether the file is shorter than its headers say.
        is_cut: bool,
    },
    /// The framework in the dump has another version.
    #[error(
        "the framework in this dump has memory layout version {0}, and this dtrace reads version {VERSION}; build both from the same \
         release"
    )]
    Version(u32),
    /// The framework's memory is inconsistent.
    #[error(
        "the framework in this dump cannot be read: {0}; the dump must contain its memory completely and contiguously: if the kernel \
         maps it from scattered pages, dump virtual memory (dump-guest-memory -p)"
    )]
    Broken(String),
    /// No consumer was tracing.
    #[error("no consumer was tracing when this dump was made")]
    NoConsumer,
}
