//! A child whose standard input and output are the line.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A child that has closed its end is about to end itself.
const END: Duration = Duration::from_secs(2);

/// It. When this is dropped, it is gone.
#[derive(Debug)]
pub(super) struct Child(std::process::Child);

/// Runs a command by the shell. Returns it, its standard output and its standard input.
pub(super) fn spawn(command: &str) -> io::Result<(Child, OwnedFd, OwnedFd)> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        // Of its own: Ctrl-C is for dtrace, which goes on reading what there is.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    Ok((Child(child), output.into(), input.into()))
}

impl Child {
    /// How it ended, if it does.
    pub(super) fn ended(&mut self) -> Option<String> {
        let deadline = Instant::now() + END;
        loop {
            if let Ok(Some(status)) = self.0.try_wait() {
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
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}
