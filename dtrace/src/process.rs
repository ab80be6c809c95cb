//! `-c`: a command that runs while dtrace traces, and ends it.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::consume::Meanwhile;
use crate::cpp::reason;

/// How often it is looked for.
const BEAT: Duration = Duration::from_millis(20);

/// The command's process. It waits until tracing has begun; when this is dropped before that, it is gone.
#[derive(Debug)]
pub struct Process {
    child: Child,
    begun: bool,
    ended: Option<ExitStatus>,
}

/// Why there is no process.
#[derive(Debug, thiserror::Error)]
#[error("failed to execute {command}: {reason}")]
pub struct ProcessError {
    command: String,
    reason: String,
}

impl Process {
    /// Makes a process of a command, which has not begun with it. Words are parted by blanks, as in dtrace(1).
    ///
    /// # Errors
    /// There is no such command.
    pub fn new(command: &str) -> Result<Self, ProcessError> {
        let error =
            |error: io::Error| ProcessError { command: command.into(), reason: reason(&error) };
        let mut words = command.split_ascii_whitespace();
        let program = find(words.next().unwrap_or_default()).map_err(error)?;
        // The shell stops itself, and becomes the command once it is continued.
        let child = Command::new("/bin/sh")
            .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
            .arg(program)
            .args(words)
            .spawn()
            .map_err(error)?;
        let process = Self { child, begun: false, ended: None };
        waitpid(process.pid(), WaitOptions::UNTRACED).map_err(|errno| error(errno.into()))?;
        Ok(process)
    }

    /// Its number, which is `$target`.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }
}

/// Where a program is.
fn find(name: &str) -> io::Result<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    let missing = || io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error());
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path)).ok_or_else(missing);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
    paths.find(|path| !name.is_empty() && is_program(path)).ok_or_else(missing)
}

impl Meanwhile for Process {
    fn step(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        if !std::mem::replace(&mut self.begun, true) {
            if let Some(pid) = self.pid() {
                kill_process(pid, Signal::CONT)?;
            }
            return Ok(true);
        }
        self.ended = self.child.try_wait()?;
        Ok(self.ended.is_none())
    }

    fn pause(&self) -> Duration {
        BEAT
    }

    fn last_words(&self) -> Option<String> {
        let id = self.id();
        self.ended.map(|status| match status.signal() {
            Some(signal) => format!("pid {id} terminated by signal {signal}"),
            None => format!("pid {id} has exited"),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.begun {
            // It is stopped, and nobody else knows of it.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_waits_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let mut process = Process::new(&format!("touch {}", file.display())).unwrap();
        assert!(!file.exists());
        assert!(process.step().unwrap());
        while process.step().unwrap() {
            std::thread::sleep(BEAT);
        }
        assert!(file.exists());
        let words = format!("pid {} has exited", process.id());
        assert_eq!(process.last_words(), Some(words));
    }

    #[test]
    fn one_that_is_not_there_is_named() {
        let error = Process::new("/nowhere/x 1").unwrap_err();
        let text = "failed to execute /nowhere/x 1: No such file or directory";
        assert_eq!(error.to_string(), text);
        assert!(Process::new("").is_err());
    }
}
