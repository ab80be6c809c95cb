//! `-c`: a command that runs while dtrace traces, or a program that dtrace traces; its end is the end of the run.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::consume::{Interrupt, Workload, WorkloadError};
use crate::system::reason;
use crate::transport::{Address, AddressError, Protection};

/// Longest time between two checks whether the command has ended.
const BEAT: Duration = Duration::from_millis(20);
/// The number of times that a program is asked whether it is still running: for 100 ms.
const BEATS: u32 = 20;

/// A process that is stopped before it executes its command. The first step of the run continues it. Dropping this
/// value before that ends the process.
#[derive(Debug)]
pub struct Command {
    child: Child,
    begun: bool,
    ended: Option<ExitStatus>,
}

/// The command cannot be executed.
#[derive(Debug, thiserror::Error)]
#[error("failed to execute {command}: {reason}")]
pub struct CommandError {
    command: String,
    reason: String,
}

impl Command {
    /// Creates a stopped process for a command line, whose words are separated by blanks, as in dtrace(1).
    ///
    /// # Errors
    /// The program does not exist or is not executable, or the process cannot be created.
    pub fn new(command: &str) -> Result<Self, CommandError> {
        Self::with(command, |_| {})
    }

    /// Creates a stopped process for a command line after preparing the process further.
    fn with(
        command: &str,
        prepare: impl FnOnce(&mut process::Command),
    ) -> Result<Self, CommandError> {
        let error =
            |error: io::Error| CommandError { command: command.into(), reason: reason(&error) };
        let mut words = command.split_ascii_whitespace();
        let program = find(words.next().unwrap_or_default()).map_err(error)?;
        // The shell stops itself, and executes the command when it is continued.
        let mut shell = process::Command::new("/bin/sh");
        shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(program).args(words);
        prepare(&mut shell);
        let child = shell.spawn().map_err(error)?;
        let command = Self { child, begun: false, ended: None };
        waitpid(command.pid(), WaitOptions::UNTRACED).map_err(|errno| error(errno.into()))?;
        Ok(command)
    }

    /// Returns the process ID, which is `$target`.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Continues the stopped process.
    fn resume(&self) -> io::Result<()> {
        self.pid().map_or(Ok(()), |pid| Ok(kill_process(pid, Signal::CONT)?))
    }
}

/// The environment variable that makes a program with `sdt-process` wait in `start` until its parent traces it. The value is the
/// process ID of the parent.
const WAIT: &str = "SDT_PROCESS_WAIT";
/// Time after which a message says that the program hosts no probes yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// A stopped program that hosts its own probes. It runs until it calls `sdt_process::start`, and waits there until
/// dtrace traces it. Dropping this value before that ends the program.
#[derive(Debug)]
pub struct Hosting(Command);

/// A program that was started to be traced cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum HostingError {
    /// The program ended before it hosted probes.
    #[error(
        "pid {0} has exited without hosting probes: the program itself, and not a program that it runs, has to call sdt_process::start"
    )]
    Ended(u32),
    /// The user interrupted dtrace.
    #[error("interrupted before pid {0} hosted probes")]
    Interrupted(u32),
    /// The program cannot be waited for, or its socket is not its own.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The program cannot be continued.
    #[error("failed to continue pid {id}: {}", reason(.error))]
    Resume {
        /// The process.
        id: u32,
        /// The error.
        error: io::Error,
    },
}

impl Hosting {
    /// Creates the stopped process of a program for a command line, as [`Command::new`] does.
    ///
    /// # Errors
    /// See [`Command::new`].
    pub fn new(command: &str) -> Result<Self, CommandError> {
        Command::with(command, |shell| _ = shell.env(WAIT, process::id().to_string())).map(Self)
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns whether the program is still running. Waits a moment: a program that exits closes its socket first.
    pub fn is_running(&mut self) -> bool {
        for _ in 0..BEATS {
            if !matches!(self.0.child.try_wait(), Ok(None)) {
                return false;
            }
            std::thread::sleep(BEAT / 4);
        }
        true
    }

    /// Continues the program until it hosts probes; the program then waits. `say` prints a message if that takes long.
    ///
    /// # Errors
    /// The program ended, its socket cannot be used, or the user interrupted dtrace.
    pub fn wait_for_probes(
        &mut self,
        interrupt: &Interrupt,
        say: impl Fn(&str),
    ) -> Result<(), HostingError> {
        let id = self.id();
        self.0.resume().map_err(|error| HostingError::Resume { id, error })?;
        let (began, mut said) = (Instant::now(), false);
        loop {
            match Address::Process(id).open(&Protection::Machine, || {}) {
                Ok(_) => return Ok(()),
                // The process does not execute the program yet, does not host probes yet, or has exited.
                Err(AddressError::Process { error, .. }) if error.is_early() => {}
                Err(error) => return Err(error.into()),
            }
            if !matches!(self.0.child.try_wait(), Ok(None)) {
                return Err(HostingError::Ended(id));
            }
            if interrupt.raised() {
                return Err(HostingError::Interrupted(id));
            }
            if !said && began.elapsed() > PATIENCE {
                said = true;
                say(&format!("dtrace: waiting for pid {id} to call sdt_process::start\n"));
            }
            std::thread::sleep(BEAT / 4);
        }
    }
}

impl Workload for Hosting {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        self.0.begun = true;
        // Reaps the process if it has exited.
        self.0.child.try_wait()?;
        Ok(true)
    }

    fn pause(&self) -> Duration {
        BEAT
    }

    fn exit_message(&self) -> Option<String> {
        Some(format!("pid {} has exited", self.id()))
    }
}

/// Finds a program, by its path or in the folders of `PATH`.
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

impl Workload for Command {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        if !std::mem::replace(&mut self.begun, true) {
            self.resume()?;
            return Ok(true);
        }
        self.ended = self.child.try_wait()?;
        Ok(self.ended.is_none())
    }

    fn pause(&self) -> Duration {
        BEAT
    }

    fn end_message(&self) -> Option<String> {
        let id = self.id();
        self.ended.map(|status| match status.signal() {
            Some(signal) => format!("pid {id} terminated by signal {signal}"),
            None => format!("pid {id} has exited"),
        })
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if !self.begun {
            // The stopped process would stay for ever.
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
        let mut command = Command::new(&format!("touch {}", file.display())).unwrap();
        assert!(!file.exists());
        assert!(command.step().unwrap());
        while command.step().unwrap() {
            std::thread::sleep(BEAT);
        }
        assert!(file.exists());
        let words = format!("pid {} has exited", command.id());
        assert_eq!(command.end_message(), Some(words));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Command::new("/nowhere/x 1").unwrap_err();
        let text = "failed to execute /nowhere/x 1: No such file or directory";
        assert_eq!(error.to_string(), text);
        assert!(Command::new("").is_err());
    }
}
