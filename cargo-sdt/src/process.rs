//! Runs other programs, with a clean environment, a time limit, and errors with their output.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A program failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program could not be started.
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: std::io::Error },
    /// The program ended with an error.
    #[error("{}", failure(.command, .status, .output))]
    Failed { command: String, status: ExitStatus, output: String },
    /// The program was killed, because it was still running after its time limit.
    #[error("{command}: killed, because it was still running after {} s", .limit.as_secs())]
    TimedOut { command: String, limit: Duration },
}

/// Whether errors show the whole command line, which may have hundreds of characters.
static COMMAND_LINES: AtomicBool = AtomicBool::new(false);

/// Makes errors of programs that fail show the whole command line.
pub fn show_command_lines() {
    COMMAND_LINES.store(true, Ordering::Relaxed);
}

/// Returns the message for a program that failed: its output, and its command line if the user has requested it or if
/// there is no output.
fn failure(command: &str, status: &ExitStatus, output: &str) -> String {
    described(command, &ending(status), output, COMMAND_LINES.load(Ordering::Relaxed))
}

fn described(command: &str, ending: &str, output: &str, whole: bool) -> String {
    if output.is_empty() {
        return format!("{command}: {ending}");
    }
    let program = command.split(' ').next().unwrap_or_default();
    let line = if whole { format!("\nThat was: {command}") } else { String::new() };
    format!("{program}: {ending}\n{output}{line}")
}

fn ending(status: &ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The output of a program.
#[derive(Debug)]
pub struct Written {
    /// To standard output.
    pub stdout: Vec<u8>,
    /// To standard error, damaged UTF-8 replaced.
    pub stderr: String,
}

impl Written {
    /// The first line of standard output, without the white space around it.
    pub fn first_line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).lines().next().unwrap_or("").trim().to_owned()
    }
}

/// The command line, for messages.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a program to its end, without input, and returns its output.
///
/// # Errors
/// The program cannot be started, fails, or was killed because it was still running after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<Written, ProcessError> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| start_error(command, source))?;
    let mut child = Running(child);
    let stdout = child.0.stdout.take().map(drain);
    let stderr = child.0.stderr.take().map(drain);
    let status = wait(&mut child, limit, || command_line(command))?;
    let collect = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let stdout = collect(stdout);
    let stderr = String::from_utf8_lossy(&collect(stderr)).into_owned();
    if status.success() {
        return Ok(Written { stdout, stderr });
    }
    // Most programs explain a failure on standard error.
    let output = if stderr.trim().is_empty() {
        String::from_utf8_lossy(&stdout).into_owned()
    } else {
        stderr
    };
    Err(ProcessError::Failed {
        command: command_line(command),
        status,
        output: output.trim_end().into(),
    })
}

/// Runs a program to its end, without input, with the standard output and error of this one.
///
/// # Errors
/// As [`run`].
pub fn run_visibly(command: &mut Command, limit: Duration) -> Result<(), ProcessError> {
    let child =
        command.stdin(Stdio::null()).spawn().map_err(|source| start_error(command, source))?;
    let status = wait(&mut Running(child), limit, || command_line(command))?;
    if status.success() {
        return Ok(());
    }
    Err(ProcessError::Failed { command: command_line(command), status, output: String::new() })
}

fn start_error(command: &Command, source: std::io::Error) -> ProcessError {
    ProcessError::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // After a read error, the bytes that were read before are still shown.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn wait(
    child: &mut Running,
    limit: Duration,
    command: impl Fn() -> String,
) -> Result<ExitStatus, ProcessError> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        match child.0.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(source) => return Err(ProcessError::Start { program: command(), source }),
        }
        if Instant::now() >= end {
            return Err(ProcessError::TimedOut { command: command(), limit });
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// A child in the process group of this process, so that Ctrl-C at the terminal also reaches it. If it is still running
/// when this is dropped, it is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // Errors of killing or waiting are ignored.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Returns the path of a program, by `PATH` and the folders that only root's `PATH` has.
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Removes the variables of an outer cargo, rustup or clippy from the command's environment, so that an inner cargo of
/// another toolchain starts as from a shell. Keeps the settings of the network and of registries.
pub fn clean_cargo_env(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if leaks(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn leaks(name: &OsStr) -> bool {
    const KEPT: [&str; 6] =
        ["CARGO_HOME", "CARGO_HTTP", "CARGO_NET", "CARGO_REGISTR", "CARGO_SOURCE", "CARGO_TERM"];
    const SET: [&str; 13] = [
        "CARGO",
        "LD_LIBRARY_PATH",
        "MAKEFLAGS",
        "MFLAGS",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        // Only options select the target.
        "SDT_FREEBSD",
        "SDT_PATCH",
        "SDT_ROUTE",
    ];
    let name = name.to_string_lossy();
    SET.contains(&&*name)
        || (name.starts_with("CARGO_") && !KEPT.iter().any(|kept| name.starts_with(kept)))
        || name.starts_with("CLIPPY_")
}

#[cfg(test)]
#[path = "../tests/unit/process.rs"]
mod tests;
