//! Reads the last records of a framework from a dump of its memory (`dtrace --core FILE`).
//!
//! | step | |
//! |---|---|
//! | `image` | opens the file: a core of a process, a dump of a machine (both ELF), or raw memory; maps addresses to offsets |
//! | `find` | finds frameworks by the header of their memory ([`dtrace_abi::postmortem`]) |
//! | `enabled` | reads the enabled probes and their names |
//! | `traced` | reads the sessions of consumers: descriptions, and the consistent part of their buffers |
//! | `line` | answers requests as a kernel does, so that the code for live kernels prints the records |
//!
//! Nothing in a dump is trusted: it may be truncated, inconsistent because memory changed while it was written, or forged.
//! Inconsistent parts are left out, with a message.

mod enabled;
mod error;
mod find;
mod image;
mod line;
mod traced;

use std::path::Path;
use std::sync::Arc;

pub use error::{DumpError, DumpErrorKind};
pub use image::ImageError;
pub use line::Line;
pub use traced::Traced;

/// The content of a dump.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// The sessions of consumers that were tracing; at least one.
    pub consumers: Vec<Arc<Traced>>,
    /// Messages about missing parts, a line each.
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
