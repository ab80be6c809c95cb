//! The reasons why the process cannot change its text.

use std::io;

use sdt_core::patch::PatchError;

/// The reason why the sites of a probe were left as they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Another handler of SIGTRAP has replaced the one of this crate.
    #[error(
        "another handler of SIGTRAP has replaced that of sdt_process; install it before sdt_process is started"
    )]
    Handler,
    /// A breakpoint in this thread would end the process.
    #[error(
        "thread {0} blocks SIGTRAP, and a breakpoint in it would end the process; unblock SIGTRAP \
         in this thread"
    )]
    Blocked(u32),
    /// A breakpoint in the handler of this signal would end the process.
    #[error(
        "the handler of signal {0} blocks SIGTRAP, and a breakpoint in it would end the process; \
         remove SIGTRAP from its sa_mask"
    )]
    Masked(i32),
    /// A seccomp filter may end the process for a system call that a change of text makes.
    #[error(
        "a seccomp filter was installed after sdt_process was started, or not in all threads \
         (Linux before 5.9 does not tell), and may end the process for a system call of \
         sdt_process; install it in all threads before the start, or declare with \
         Options::allowed_by_sandbox that it allows these calls"
    )]
    Sandbox,
    /// A debugger has a breakpoint at a site.
    #[error("a debugger has a breakpoint at a site of the probe; delete the breakpoint")]
    Debugger,
    /// A thread has a shadow stack. Emulated and copied calls and returns do not change it, so functions cannot be traced.
    #[error(
        "a thread has a shadow stack, and a traced function would end the process; start the program without \
         shadow stacks (with glibc: GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, on aarch64 GLIBC_TUNABLES=glibc.cpu.aarch64_gcs=0)"
    )]
    ShadowStack,
    /// `/proc` does not tell whether a thread blocks SIGTRAP.
    #[error(
        "/proc/self cannot be read, so whether a thread blocks SIGTRAP is unknown: {0}; give the process /proc and a file \
         descriptor"
    )]
    Unknown(#[source] io::Error),
    /// `membarrier(2)` cannot synchronise the threads.
    #[error(
        "membarrier(2) failed: {0}; allow it in the sandbox, or build the program with \
         SDT_PATCH=gate"
    )]
    Synchronise(#[source] io::Error),
    /// Text cannot be written.
    #[error("text cannot be written: {0}; build the program with SDT_PATCH=gate")]
    Text(#[source] io::Error),
    /// A step failed although it had been proved to work. Sites that hold a breakpoint keep it.
    #[error("a change of text stopped midway, and some sites may trap until the next change: {0}")]
    Stopped(#[source] Box<Self>),
    /// `sdt_core` refuses the change.
    #[error(transparent)]
    Patch(PatchError),
}

/// The reason why a process cannot change its own text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The handler of SIGTRAP cannot be installed.
    #[error("sigaction(2) of SIGTRAP failed: {0}")]
    Handler(#[source] io::Error),
    /// CPUs cannot be synchronised. That needs Linux 4.16, on riscv64 6.10, and no sandbox that forbids it.
    #[error("membarrier(2) cannot synchronise threads: {0}")]
    Synchronise(#[source] io::Error),
    /// `/proc` cannot be read.
    #[error("/proc/self/status cannot be read: {0}")]
    Proc(#[source] io::Error),
    /// The memory of the process cannot be opened for writing.
    #[error("/proc/self/mem cannot be opened for writing: {0}")]
    Memory(#[source] io::Error),
}
