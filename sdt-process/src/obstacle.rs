//! Threads that prevent a change of text.

use std::{fs, io};

use crate::{sandbox, threads};

/// The reason why text must not change under a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The thread with this number blocks SIGTRAP. The kernel would end the process at a breakpoint in it.
    Blocks(u32),
    /// The thread has a seccomp filter that not all threads had when tracing started.
    IsSandboxed,
}

/// Returns the first obstacle.
///
/// # Errors
/// `/proc` cannot be read, so nothing is known about the threads.
pub(crate) fn find() -> io::Result<Option<Obstacle>> {
    threads::each(|task, status| {
        let number = task.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
        if threads::blocks_sigtrap(status)
            && !fs::read(task.path().join("stat"))
                .is_ok_and(|stat| threads::is_io_worker(&String::from_utf8_lossy(&stat)))
        {
            return Ok(Some(Obstacle::Blocks(number)));
        }
        Ok(sandbox::is_tighter(status).then_some(Obstacle::IsSandboxed))
    })
}
