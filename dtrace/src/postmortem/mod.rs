//! What a framework had recorded when it ended: read from a dump of its memory (`dtrace --core FILE`).
//!
//! | step | |
//! |---|---|
//! | `image` | the file: a core of a process, a dump of a machine (both ELF), or memory as it is; what of it is where |
//! | `find` | frameworks in it, by what their memory begins with ([`dtrace_abi::postmortem`]) |
//! | `traced` | what consumers had: descriptions, and buffers as far as they hold what they say |
//! | `line` | a line to it: it answers what a kernel would, so what is printed is printed by who traces kernels |
//!
//! Nothing in a dump is trusted: it may be cut, or changed while it was written, or be somebody's work. What does not hold
//! together is left out, and said.

mod find;
mod image;
mod line;
mod traced;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dtrace_abi::postmortem::VERSION;
pub use image::ImageError;
pub use line::Line;
pub use traced::Traced;

/// Why nothing is read from a dump.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", .file.display())]
pub struct DumpError {
    /// Its file.
    pub file: PathBuf,
    /// Why.
    pub kind: DumpErrorKind,
}

/// What is wrong with a dump.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpErrorKind {
    /// It cannot be read, or is none.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// There is no framework in it.
    #[error(
        "there is no framework of sdt-framework's in this dump{}; was its memory dumped, too?",
        if *.is_cut { ", which ends before its end" } else { "" }
    )]
    None {
        /// The file is shorter than it says.
        is_cut: bool,
    },
    /// There is one of another version.
    #[error(
        "the framework in this dump keeps its memory as of version {0}, this dtrace reads version {VERSION}; build one of them again"
    )]
    Version(u32),
    /// Its memory leads nowhere.
    #[error(
        "the framework in this dump cannot be read: {0}; its memory has to be in the dump as a whole, and in one piece: of a \
         machine whose kernel has put it together from pages, dump virtual memory (dump-guest-memory -p)"
    )]
    Broken(String),
    /// Nobody was tracing.
    #[error("nothing was being traced when this was dumped: no consumer had gone")]
    NoConsumer,
}

/// What there is in a dump.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Of each consumer that had gone: those of which there is anything, at least one.
    pub consumers: Vec<Arc<Traced>>,
    /// What else should be there, and is not: a line each.
    pub complaints: Vec<String>,
}

/// Reads a dump.
///
/// # Errors
/// See [`DumpErrorKind`].
pub fn read(file: &Path) -> Result<Dump, DumpError> {
    let dump = image::Image::open(file).map_err(DumpErrorKind::from).and_then(|image| {
        let mut dump = Dump::default();
        for memory in find::all(&image)? {
            let all = traced::all(&memory, &mut dump.complaints);
            dump.consumers.extend(all.into_iter().map(Arc::new));
        }
        if !dump.consumers.is_empty() {
            return Ok(dump);
        }
        let first = dump.complaints.into_iter().next();
        Err(first.map_or(DumpErrorKind::NoConsumer, DumpErrorKind::Broken))
    });
    dump.map_err(|kind| DumpError { file: file.into(), kind })
}
