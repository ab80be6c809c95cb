//! A program of the suite is run.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Case;

/// What timeout(1) says of a program that had to be stopped.
pub const TIMED_OUT: i32 = 124;
/// How long a program has after it was asked to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for.
const BEAT: Duration = Duration::from_millis(10);

/// What runs programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// dtrace(1).
    pub dtrace: PathBuf,
    /// The host of the framework.
    pub host: PathBuf,
    /// The folder of the suite.
    pub suite: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status; [`TIMED_OUT`] if it had to be stopped.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs a program.
///
/// # Errors
/// dtrace cannot be run.
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
