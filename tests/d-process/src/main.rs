//! Serves a consumer on standard input and output: `dtrace --connect exec:d-process`. With `--syscalls`, each write to it fires
//! the provider `syscall`.

use std::os::fd::OwnedFd;
use std::os::unix::process::parent_id;

use d_process::{Line, Machine};

fn main() {
    let clone = |fd: std::os::fd::BorrowedFd<'_>| -> OwnedFd {
        fd.try_clone_to_owned().expect("a descriptor can be cloned")
    };
    let input = clone(std::os::fd::AsFd::as_fd(&std::io::stdin()));
    let output = clone(std::os::fd::AsFd::as_fd(&std::io::stdout()));
    // BEGIN fires in dtrace(1)'s process, as in a kernel: this process is its child.
    let dtrace = parent_id();
    let stat = std::fs::read_to_string(format!("/proc/{dtrace}/stat")).unwrap_or_default();
    let ppid = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let machine = Machine {
        pid: dtrace.into(),
        ppid: ppid.unwrap_or_default(),
        syscalls: std::env::args().any(|arg| arg == "--syscalls"),
        ..Machine::default()
    };
    d_process::serve(machine, Line::new(input, output));
}
