//! A child whose standard input and output are the line.

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

/// A child that has closed its end is about to end itself.
const END: Duration = Duration::from_secs(2);

/// It. When this is dropped, it is gone.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    /// As long as this is open the command goes on.
    _held: PipeWriter,
}

/// Ends all that the command has started once nobody has the other end of the pipe any more: that is this process's alone, so
/// whatever becomes of it, nothing of the command stays. The command's own descriptors are nothing to who waits for that.
const WATCH: &str =
    "{ exec <\"/dev/fd/$1\" && { read -r _; kill -KILL -$$; }; } >/dev/null 2>&1 & eval \"$0\"";

/// Runs a command by the shell. Returns it, its standard output and its standard input.
pub(super) fn spawn(command: &str) -> io::Result<(Child, OwnedFd, OwnedFd)> {
    let (watched, held) = io::pipe()?;
    fcntl_setfd(&watched, FdFlags::empty())?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", WATCH, command, &watched.as_raw_fd().to_string()])
        // Of its own: Ctrl-C is for dtrace, which goes on reading what there is.
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
    /// How it ended, if it does.
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
        // With all that it has started. If it cannot be killed it has ended already; either way its status is taken.
        if let Some(group) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.process.wait();
    }
}
