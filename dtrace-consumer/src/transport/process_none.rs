//! Processes that host their probes themselves: `sdt-process` is for Linux, so elsewhere there are none.

use std::os::unix::net::UnixStream;

/// Why there is no line to a process.
#[derive(Debug, thiserror::Error)]
#[error("tracing a process (-p) is supported on Linux only")]
pub struct ProcessError;

impl ProcessError {
    /// Returns whether the error may disappear when the process starts to host probes.
    pub(crate) const fn is_early(&self) -> bool {
        false
    }
}

/// Fails.
pub(super) fn connect(_: u32) -> Result<UnixStream, ProcessError> {
    Err(ProcessError)
}
