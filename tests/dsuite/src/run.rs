//! Runs a program of the suite with a time limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::Case;

/// The exit status of timeout(1) for a program that it stopped.
pub const TIMED_OUT: i32 = 124;
/// Time between the signal that ends a program in order, and killing it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the exit status is polled.
const BEAT: Duration = Duration::from_millis(10);

/// Paths of dtrace(1), of its target and of the suite.
#[derive(Clone, Debug)]
pub struct Programs {
    /// dtrace(1).
    pub dtrace: PathBuf,
    /// `d-process`, the process that hosts the framework.
    pub host: PathBuf,
    /// The folder of the suite.
    pub suite: PathBuf,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status; [`TIMED_OUT`] after the time limit.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs a program.
///
/// # Errors
/// An I/O error: dtrace cannot be run.
pub fn run(programs: &Programs, case: &Case) -> io::Result<Ended> {
    let files = (tempfile::tempfile()?, tempfile::tempfile()?);
    let stdio = |file: &File| file.try_clone().map(Stdio::from);
    let mut child = Command::new(&programs.dtrace)
        .arg("--connect")
        .arg(format!("exec:exec {} --syscalls", programs.host.display()))
        .args(&case.options)
        .current_dir(&programs.suite)
        .env("_DTRACE_TESTING", "t")
        .stdin(Stdio::null())
        .stdout(stdio(&files.0)?)
        .stderr(stdio(&files.1)?)
        .spawn()?;
    let began = Instant::now();
    let mut asked = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        match asked {
            None if began.elapsed() > case.limit => {
                // With this signal, dtrace ends in order.
                Command::new("kill").arg(child.id().to_string()).status()?;
                asked = Some(Instant::now());
            }
            Some(when) if when.elapsed() > PATIENCE => child.kill()?,
            _ => {}
        }
        thread::sleep(BEAT);
    };
    use std::os::unix::process::ExitStatusExt as _;
    let status = match (asked, status.code()) {
        (Some(_), _) => TIMED_OUT,
        (None, Some(status)) => status,
        (None, None) => 128 + status.signal().unwrap_or(0),
    };
    Ok(Ended { status, out: text(files.0)?, err: text(files.1)? })
}

fn text(mut file: File) -> io::Result<String> {
    use std::io::Seek as _;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
