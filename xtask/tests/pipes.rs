//! Commands whose reader closes the pipe early: `cargo xtask dtrace --help | head -1`.

use std::process::{Command, Output, Stdio};

use cargo_sdt::internal::output::CLOSED_STATUS;

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// Runs a command whose standard output has no reader, nor has its standard error if `both`.
fn unread(line: &str, both: bool) -> Output {
    let mut command = Command::new(XTASK);
    command.args(line.split(' ')).stdin(Stdio::null());
    // The write end of a pipe whose read end is closed.
    let closed = || std::io::pipe().expect("a pipe").1;
    command.stdout(closed());
    if both {
        command.stderr(closed());
    } else {
        command.stderr(Stdio::piped());
    }
    command.spawn().and_then(std::process::Child::wait_with_output).expect("it runs")
}

#[test]
fn nobody_is_told_of_a_reader_that_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.ko");
    std::fs::write(&file, "not a module").unwrap();
    let check = format!("check {}", file.display());
    // Errors of a module are written to standard error, which is still read.
    let finding = "none.ko: error: not a readable object file: ";
    for (line, status, said) in [
        ("dtrace --help", CLOSED_STATUS, ""),
        (&*check, CLOSED_STATUS, finding),
        // Messages of clap itself, which ends with success.
        ("--help", 0, ""),
        ("kmod --help", 0, ""),
        ("dlib --help", 0, ""),
    ] {
        let output = unread(line, false);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with(said), "{line}: {stderr}");
        assert_eq!(stderr.lines().count(), usize::from(!said.is_empty()), "{line}: {stderr}");
        assert_eq!(output.status.code(), Some(i32::from(status)), "{line}");
    }
}

#[test]
fn what_cannot_be_said_ends_with_its_own_status() {
    for (line, status) in [
        ("dtrace", 2),
        ("dtrace -y", 2),
        ("dtrace -x nosuch -n a", 1),
        ("dlib /nonexistent.ko", 1),
        ("check /nonexistent.ko", 1),
        ("kmod --os illumos --freebsd 15", 1),
    ] {
        assert_eq!(unread(line, true).status.code(), Some(status), "{line}");
    }
}
