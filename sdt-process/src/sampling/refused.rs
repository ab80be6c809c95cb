//! Why threads cannot be sampled.

use std::ffi::c_int;
use std::io;

/// The reason why `profile-N` cannot be enabled in a process.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsampled {
    #[error(
        "the program handles all real-time signals, and samples need one; leave one to sdt_process"
    )]
    NoSignal,
    #[error(
        "the program has replaced the handler of signal {0}, which sdt_process uses for samples; use another real-time signal"
    )]
    Replaced(c_int),
    #[error(
        "a seccomp filter was installed after sdt_process was started, or not in all threads, and may end the process for a system \
         call of sdt_process; install it in all threads before the start, or declare with Options::allowed_by_sandbox that it allows \
         these calls"
    )]
    Sandbox,
    #[error(
        "timer_create(2) failed when sdt_process was started: {0}; allow the system calls timer_* in the sandbox"
    )]
    Calls(io::Error),
    #[error(
        "timer_create(2) failed for thread {0}: {1}; each thread needs a timer; raise RLIMIT_SIGPENDING"
    )]
    Timer(u32, io::Error),
    #[error("/proc/self/task cannot be read: {0}; give the process /proc and a file descriptor")]
    Threads(io::Error),
    #[error("there is no memory for the stacks of the signal handler: {0}")]
    Stacks(io::Error),
    #[error(
        "sdt_process is in a library that was loaded by dlopen, whose thread-local variables a signal handler cannot use; link the \
         program with the library"
    )]
    Library,
}
