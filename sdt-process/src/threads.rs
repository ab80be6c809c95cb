//! The threads of this process, looked at before text changes.

use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};

use crate::sandbox;

/// What a thread is that text must not change under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It has SIGTRAP blocked. Should it come to a breakpoint, the kernel ends the process.
    Blocks(u32),
    /// It has a seccomp filter that not all threads had when tracing started.
    IsSandboxed,
}

/// Calls `look` with the folder and the status (proc_pid_status(5)) of each thread, until it returns something.
///
/// # Errors
/// `/proc` cannot be read: nothing is known of the threads then.
pub(crate) fn each<T>(
    mut look: impl FnMut(&DirEntry, &str) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        let status = match fs::read(task.path().join("status")) {
            Ok(status) => status,
            // The thread has ended since it was listed.
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    || error.raw_os_error() == Some(libc::ESRCH) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        // Names of threads are any bytes.
        let seen = look(&task, &String::from_utf8_lossy(&status))?;
        if seen.is_some() {
            return Ok(seen);
        }
    }
    Ok(None)
}

/// Returns the first thread that text must not change under.
///
/// # Errors
/// `/proc` cannot be read: nothing is known of the threads then.
pub(crate) fn obstacle() -> io::Result<Option<Obstacle>> {
    each(|task, status| {
        let number = task.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
        if blocks(status)
            && !fs::read(task.path().join("stat"))
                .is_ok_and(|stat| is_worker(&String::from_utf8_lossy(&stat)))
        {
            return Ok(Some(Obstacle::Blocks(number)));
        }
        Ok(sandbox::is_tighter(status).then_some(Obstacle::IsSandboxed))
    })
}

/// A field of a status.
pub(crate) fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Whether a status is that of a thread that has ended, and executes nothing any more.
pub(crate) fn has_ended(status: &str) -> bool {
    field(status, "State").is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// Whether a status is that of a thread that has SIGTRAP blocked.
fn blocks(status: &str) -> bool {
    let blocked = field(status, "SigBlk").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let blocks = blocked.is_some_and(|mask| mask & (1 << (libc::SIGTRAP - 1)) != 0);
    blocks && !has_ended(status)
}

/// Whether a line of `stat` (proc_pid_stat(5)) is that of a worker of io_uring: the kernel's own, which executes nothing of
/// the program and blocks everything.
fn is_worker(stat: &str) -> bool {
    /// `PF_IO_WORKER` (Linux, `include/linux/sched.h`).
    const IO_WORKER: u32 = 0x10;
    // The name before the parenthesis is any text. Behind it: state, ppid, pgrp, session, tty_nr, tpgid, flags.
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(6));
    let flags = flags.and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & IO_WORKER != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read() {
        let status =
            |name, state, mask| format!("Name:\t{name}\nState:\t{state}\nSigBlk:\t{mask}\n");
        assert!(blocks(&status("main", "S (sleeping)", "0000000000000010")));
        assert!(blocks(&status("main", "R (running)", "fffffffffffffeff")));
        assert!(!blocks(&status("main", "R (running)", "ffffffffffffffef")));
        assert!(!blocks(&status("main", "Z (zombie)", "fffffffffffffeff")));
        assert!(!blocks(""));
    }

    /// By the kernel's flag: any thread can have the name.
    #[test]
    fn workers_of_io_uring_are_known() {
        assert!(is_worker("7 (iou-wrk-6) S 1 6 6 0 -1 4194384 0 0"));
        assert!(!is_worker("7 (iou-wrk-6) S 1 6 6 0 -1 4194368 0 0"));
        assert!(!is_worker("7 (a) b) R 16 16 16 16 16 0 16 16") && !is_worker(""));
    }
}
