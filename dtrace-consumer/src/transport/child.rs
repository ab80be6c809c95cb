//! A command as transport: its standard input and output.

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

/// The longest wait for the end of the process after the end of its stream.
const END: Duration = Duration::from_secs(2);

/// The process of the command. Dropping it kills the process and its children.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    /// The end of a pipe: when it is closed, the watching shell kills the command.
    _held: PipeWriter,
}

/// A shell script that kills the command and its children when this process closes its end of a pipe, also if this process is
/// killed. The watching shell does not keep the command's standard input and output open.
const WATCH: &str =
    "{ exec <\"/dev/fd/$1\" && { read -r _; kill -KILL -$$; }; } >/dev/null 2>&1 & eval \"$0\"";

/// Runs a command with the shell. Returns its process, its standard output and its standard input.
pub(super) fn spawn(command: &str) -> io::Result<(Child, OwnedFd, OwnedFd)> {
    let (watched, held) = io::pipe()?;
    fcntl_setfd(&watched, FdFlags::empty())?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", WATCH, command, &watched.as_raw_fd().to_string()])
        // A process group of its own: Ctrl-C is for dtrace, which still reads the last records from the command.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    Ok((Child { process: child, _held: held }, output.into(), input.into()))
}

impl Child {
    /// Waits for the end of the process; returns its status, or `None` if it continues to run.
    pub(super) fn ended(&mut self) -> Option<String> {
        let deadline = Instant::now() + END;
        loop {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(format!("the command ended: {status}"));
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error means that the process has ended. `wait` frees its entry in the process table in either case.
        if let Some(group) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.process.wait();
    }
}
