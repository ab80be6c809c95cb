//! The status of each thread of this process, as `/proc` has it.

use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};

/// Calls `find` with the folder and the status (proc_pid_status(5)) of each thread until it returns a value.
///
/// # Errors
/// `/proc` cannot be read, so nothing is known about the threads.
pub(crate) fn each<T>(
    mut find: impl FnMut(&DirEntry, &str) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    let mut found = None;
    visit(&mut |task, status| {
        found = find(task, status)?;
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// Calls `f` with each thread until it returns `false`. Compiled only once.
fn visit(f: &mut dyn FnMut(&DirEntry, &str) -> io::Result<bool>) -> io::Result<()> {
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
        // The name of a thread can be any bytes.
        if !f(&task, &String::from_utf8_lossy(&status))? {
            break;
        }
    }
    Ok(())
}

/// Returns a field of a status.
pub(crate) fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Returns whether a status is that of a thread that has ended.
pub(crate) fn has_ended(status: &str) -> bool {
    field(status, "State").is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// Returns whether a status is that of a thread that blocks SIGTRAP.
pub(crate) fn blocks_sigtrap(status: &str) -> bool {
    let blocked = field(status, "SigBlk").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let blocks = blocked.is_some_and(|mask| mask & (1 << (libc::SIGTRAP - 1)) != 0);
    blocks && !has_ended(status)
}

/// Returns whether a debugger traces a thread of this process.
///
/// # Errors
/// That of [`each`].
pub(crate) fn is_debugged() -> io::Result<bool> {
    let found = each(|_, status| Ok(has_tracer(status).then_some(())))?;
    Ok(found.is_some())
}

/// Returns whether a status is that of a thread that a debugger traces.
pub(crate) fn has_tracer(status: &str) -> bool {
    field(status, "TracerPid").is_some_and(|tracer| tracer != "0")
}

/// Returns whether a status is that of a thread with a shadow stack, with which returns compare the return address (Linux,
/// `arch/x86/kernel/cpu/proc.c`).
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_shadow_stack(status: &str) -> bool {
    let features = field(status, "x86_Thread_features").unwrap_or_default();
    features.split_whitespace().any(|feature| feature == "shstk")
}

/// Returns whether this thread has a shadow stack. The kernel does not tell it of other threads, but programs have shadow stacks either from
/// their start, for all threads, or not (Linux, `Documentation/arch/arm64/gcs.rst`).
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_shadow_stack(_status: &str) -> bool {
    /// `PR_GET_SHADOW_STACK_STATUS`, `PR_SHADOW_STACK_ENABLE` (Linux, `include/uapi/linux/prctl.h`).
    const GET: libc::c_int = 74;
    const ENABLED: libc::c_ulong = 1;
    let mut status: libc::c_ulong = 0;
    // SAFETY: the kernel writes `status` and changes nothing else. Kernels and processors without shadow stacks refuse the call.
    unsafe { libc::prctl(GET, &raw mut status, 0, 0, 0) == 0 && status & ENABLED != 0 }
}

/// Returns whether a line of `stat` (proc_pid_stat(5)) is that of a worker of io_uring: a kernel thread, which blocks all signals and
/// executes no code of the program.
pub(crate) fn is_io_worker(stat: &str) -> bool {
    /// `PF_IO_WORKER` (Linux, `include/linux/sched.h`).
    const IO_WORKER: u32 = 0x10;
    // The name before the parenthesis can be any text. These fields follow: state, ppid, pgrp, session, tty_nr, tpgid, flags.
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
        assert!(blocks_sigtrap(&status("main", "S (sleeping)", "0000000000000010")));
        assert!(blocks_sigtrap(&status("main", "R (running)", "fffffffffffffeff")));
        assert!(!blocks_sigtrap(&status("main", "R (running)", "ffffffffffffffef")));
        assert!(!blocks_sigtrap(&status("main", "Z (zombie)", "fffffffffffffeff")));
        assert!(!blocks_sigtrap(""));
    }

    #[test]
    fn debuggers_are_recognised() {
        let status = |tracer| format!("Name:\tmain\nPPid:\t1\nTracerPid:\t{tracer}\n");
        assert!(has_tracer(&status("42")) && !has_tracer(&status("0")) && !has_tracer(""));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn shadow_stacks_are_recognised() {
        let status = |features| {
            let locked = "x86_Thread_features_locked:\tshstk wrss \n";
            format!("Name:\tmain\nx86_Thread_features:\t{features}\n{locked}")
        };
        assert!(has_shadow_stack(&status("shstk ")) && has_shadow_stack(&status("shstk wrss ")));
        assert!(!has_shadow_stack(&status("")) && !has_shadow_stack("Name:\tmain\n"));
    }

    /// Workers are known by a flag of the kernel, as any thread can have their name.
    #[test]
    fn workers_of_io_uring_are_recognised() {
        assert!(is_io_worker("7 (iou-wrk-6) S 1 6 6 0 -1 4194384 0 0"));
        assert!(!is_io_worker("7 (iou-wrk-6) S 1 6 6 0 -1 4194368 0 0"));
        assert!(!is_io_worker("7 (a) b) R 16 16 16 16 16 0 16 16") && !is_io_worker(""));
    }
}
