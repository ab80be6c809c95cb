//! The host at the other end of its standard input and output: `dtrace --connect exec:userland`. With `--syscalls` what it
//! writes there is traced, too.

use std::os::fd::OwnedFd;
use std::os::unix::process::parent_id;

use userland::{Line, Machine};

fn main() {
    let clone = |fd: std::os::fd::BorrowedFd<'_>| -> OwnedFd {
        fd.try_clone_to_owned().expect("a descriptor can be cloned")
    };
    let input = clone(std::os::fd::AsFd::as_fd(&std::io::stdin()));
    let output = clone(std::os::fd::AsFd::as_fd(&std::io::stdout()));
    // What programs see is dtrace(1)'s process, whose child this is: as in a kernel, BEGIN fires in it.
    let dtrace = parent_id();
    let stat = std::fs::read_to_string(format!("/proc/{dtrace}/stat")).unwrap_or_default();
    let ppid = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let machine = Machine {
        pid: dtrace.into(),
        ppid: ppid.unwrap_or_default(),
        syscalls: std::env::args().any(|arg| arg == "--syscalls"),
        ..Machine::default()
    };
    userland::serve(machine, Line::new(input, output));
}
