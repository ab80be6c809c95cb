//! Runs a command of a step and watches it: passes its output on, kills tests that hang, names the tests that failed or did not
//! end, and counts the CPU time.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use cargo_sdt::internal::progress::note;

/// The time without output after which this module checks whether the command has ended. Its output may stay open longer.
const LOOK: Duration = Duration::from_millis(100);

/// The reason why not all tests passed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// They could not be run.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: std::io::Error,
    },
    /// Some failed, did not end, or were not even built.
    #[error("{status}{verdicts}")]
    Failed {
        /// The end of the run.
        status: ExitStatus,
        /// The tests.
        verdicts: Verdicts,
    },
}

/// The tests that failed or are running, according to the lines of libtest.
#[derive(Debug, Default)]
pub struct Verdicts {
    failed: BTreeSet<String>,
    /// Those that had been running for a minute, and have not ended.
    running: BTreeSet<String>,
}

impl Verdicts {
    fn read(&mut self, line: &str) {
        let Some(line) = line.strip_prefix("test ") else { return };
        if let Some((test, _)) = line.split_once(" has been running for over ") {
            self.running.insert(test.to_owned());
        } else if let Some((test, verdict)) = line.rsplit_once(" ... ") {
            self.running.remove(test);
            if verdict.starts_with("FAILED") {
                self.failed.insert(test.to_owned());
            }
        }
    }
}

impl std::fmt::Display for Verdicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (what, tests) in [("failed", &self.failed), ("did not end", &self.running)] {
            for test in tests {
                write!(f, "\n    {what}: {test}")?;
            }
        }
        Ok(())
    }
}

/// Runs a command, often `cargo test`, to its end without input. Passes its standard output on to `out` and its
/// standard error to `err`, line by line. If the command prints nothing for as long as `silence`, kills its children
/// with their descendants, so that cargo continues with the next tests; or the command itself if it has no children.
///
/// Returns the CPU time of the command and of all descendants that were waited for: zero if it could not be started.
///
/// # Errors
/// The command could not be started, or did not succeed.
pub fn run(
    command: &mut Command,
    silence: Duration,
    out: &mut impl Write,
    err: &mut impl Write,
) -> (Duration, Result<(), Failure>) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = command.spawn();
    let start_error = |source| {
        let program = command.get_program().to_string_lossy().into_owned();
        (Duration::ZERO, Err(Failure::Start { program, source }))
    };
    let mut child = match started {
        Ok(child) => child,
        Err(source) => return start_error(source),
    };
    let (sender, lines) = channel();
    pass_on(child.stdout.take(), Said::Out, sender.clone());
    pass_on(child.stderr.take(), Said::Error, sender);
    let mut verdicts = Verdicts::default();
    let mut heard = Instant::now();
    let mut ended = None;
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(said) => {
                heard = Instant::now();
                // The reader of our output may have closed it; the tests run on.
                let _ = match said {
                    Said::Out(line) => {
                        verdicts.read(&String::from_utf8_lossy(&line));
                        out.write_all(&line)
                    }
                    Said::Error(line) => err.write_all(&line),
                };
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // A process that a test started may keep the pipes open. At the second timeout, all output from before the end of the
            // command has arrived.
            Err(RecvTimeoutError::Timeout) if ended.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {
                ended = wait(&child, libc::WNOHANG).ok().flatten();
                if ended.is_none() && heard.elapsed() >= silence {
                    heard = Instant::now();
                    note(format_args!(
                        "killed, because it printed nothing for {} s",
                        silence.as_secs()
                    ));
                    match children(child.id()) {
                        hung if hung.is_empty() => kill(child.id()),
                        hung => hung.into_iter().for_each(kill),
                    }
                }
            }
        }
    }
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            wait(&child, 0).and_then(|ended| ended.ok_or_else(|| io::ErrorKind::NotFound.into()))
        }
    };
    match ended {
        Ok(Ended { status, cpu }) if status.success() => (cpu, Ok(())),
        Ok(Ended { status, cpu }) => (cpu, Err(Failure::Failed { status, verdicts })),
        Err(source) => start_error(source),
    }
}

/// The end of a process.
struct Ended {
    status: ExitStatus,
    /// CPU time of the process and of the descendants that were waited for, in user mode and in the kernel.
    cpu: Duration,
}

/// Waits for a child that nothing has waited for yet. Returns `None` if `options` are `WNOHANG` and the child has not ended.
fn wait(child: &Child, options: i32) -> io::Result<Option<Ended>> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: `rusage` consists of integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are of local variables, of the types that wait4(2) writes.
        match unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) } {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => break,
        }
    }
    let cpu = [usage.ru_utime, usage.ru_stime].map(|time| {
        let seconds = Duration::from_secs(time.tv_sec.try_into().unwrap_or_default());
        seconds + Duration::from_micros(time.tv_usec.try_into().unwrap_or_default())
    });
    Ok(Some(Ended { status: ExitStatus::from_raw(status), cpu: cpu.iter().sum() }))
}

/// A line with its end, and its stream.
enum Said {
    Out(Vec<u8>),
    Error(Vec<u8>),
}

/// Sends the lines of a pipe.
fn pass_on(pipe: Option<impl Read + Send + 'static>, said: fn(Vec<u8>) -> Said, to: Sender<Said>) {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe?);
        loop {
            let mut line = Vec::new();
            let length = pipe.read_until(b'\n', &mut line).ok()?;
            if length == 0 || to.send(said(line)).is_err() {
                return Some(());
            }
        }
    });
}

/// Kills a process and its descendants. It is stopped first, so that it starts no new ones.
fn kill(process: u32) {
    // It may have ended by itself.
    let signal = |name: &str| {
        let _ = Command::new("kill").args([name, &process.to_string()]).status();
    };
    signal("-STOP");
    let children = children(process);
    signal("-KILL");
    children.into_iter().for_each(kill);
}

/// Returns the children of a process, if the system tells (Linux's /proc).
fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|of| of.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Failure {
        run(Command::new("sh").args(["-c", script]), limit, &mut Vec::new(), &mut Vec::new())
            .1
            .unwrap_err()
    }

    #[test]
    fn what_failed_is_named() {
        let script = "echo 'test a::b ... FAILED'; echo 'test c ... ok'; echo 'test d.rs - d (line 1) ... FAILED'
            echo 'test c has been running for over 60 seconds'; echo 'test c ... ok'; exit 3";
        let said = shell(script, Duration::from_secs(600)).to_string();
        assert_eq!(said, "exit status: 3\n    failed: a::b\n    failed: d.rs - d (line 1)");
    }

    #[test]
    fn what_hangs_is_killed_with_its_children_and_what_is_next_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        // Like cargo, which continues after a failed test program.
        let script = format!(
            "sh -c \"echo 'test a ... ok'; echo 'test h has been running for over 60 seconds'
                sh -c 'sleep 1000; true' & echo \\$! > {}; wait\"
            echo 'test b ... FAILED'; exit 101",
            file.display()
        );
        let said = shell(&script, Duration::from_secs(10)).to_string();
        assert_eq!(said, "exit status: 101\n    failed: b\n    did not end: h");
        let child = std::fs::read_to_string(file).unwrap();
        // It has ended, but its new parent may not have waited for it yet.
        let is_dead = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.trim()));
            status.is_err() || status.unwrap().contains("State:\tZ")
        };
        let until = Instant::now() + Duration::from_secs(60);
        while !is_dead() {
            assert!(Instant::now() < until, "{child}");
            thread::sleep(LOOK);
        }
    }

    /// A compiler may print to standard error only, for longer than the limit of silence.
    #[test]
    fn what_is_said_on_standard_error_is_a_sign_of_life() {
        let script = "for i in 1 2 3 4 5 6; do sleep 1; echo .; done >&2; exit 4";
        let said = shell(script, Duration::from_secs(5)).to_string();
        assert_eq!(said, "exit status: 4");
    }

    #[test]
    fn who_runs_nothing_and_says_nothing_is_killed() {
        let said = shell("exec sleep 1000", Duration::from_secs(1)).to_string();
        assert_eq!(said, "signal: 9 (SIGKILL)");
    }

    #[test]
    fn what_passes_is_fine_and_passed_on() {
        let mut out = Vec::new();
        // Background processes are not waited for.
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 5 & printf 'test a ... ok\\nno newline'"]);
        run(&mut shell, Duration::from_secs(600), &mut out, &mut Vec::new()).1.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "test a ... ok\n");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf a; printf b >&2"]);
        run(&mut shell, Duration::from_secs(600), &mut out, &mut err).1.unwrap();
        assert_eq!((&*out, &*err), (&b"a"[..], &b"b"[..]));
    }

    /// A grandchild loops until it has used a second of CPU time, after which the kernel ends it.
    #[test]
    fn cpu_time_of_descendants_is_counted() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'ulimit -t 1; while :; do :; done'; exit 0"]);
        let (cpu, result) =
            run(&mut shell, Duration::from_secs(600), &mut Vec::new(), &mut Vec::new());
        result.unwrap();
        // The kernel counts a second by its own ticks, some of which are another process's.
        assert!(cpu >= Duration::from_millis(100), "{cpu:?}");
        let mut none = Command::new("/nowhere/program");
        let (cpu, result) =
            run(&mut none, Duration::from_secs(600), &mut Vec::new(), &mut Vec::new());
        assert_eq!(cpu, Duration::ZERO);
        assert_eq!(
            result.unwrap_err().to_string(),
            "cannot run /nowhere/program: No such file or directory (os error 2)"
        );
    }
}
