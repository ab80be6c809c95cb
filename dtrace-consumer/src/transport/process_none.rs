//! Replaces the connection to processes on systems other than Linux, which `sdt-process` does not support.

use std::os::unix::net::UnixStream;

/// The error of each connection to a process: not supported on this system.
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
