//! The host at the other end of its standard input and output: `dtrace --connect exec:userland`.

use std::os::fd::OwnedFd;

use userland::{Line, Machine};

fn main() {
    let clone = |fd: std::os::fd::BorrowedFd<'_>| -> OwnedFd {
        fd.try_clone_to_owned().expect("a descriptor can be cloned")
    };
    let input = clone(std::os::fd::AsFd::as_fd(&std::io::stdin()));
    let output = clone(std::os::fd::AsFd::as_fd(&std::io::stdout()));
    userland::serve(Machine::default(), Line::new(input, output));
}
