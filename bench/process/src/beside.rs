//! Other tools that trace a process, measured beside this project: LTTng-UST with babeltrace2, bpftrace, and uftrace.
//!
//! These tools trace a small C program, `beside/subject.c`, that gcc compiles into a temporary folder. If this machine lacks a tool,
//! one line says so, and the rest is measured.

mod uftrace;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, geteuid, kill_process, waitid};
use tempfile::TempDir;

use crate::child::spread;
use crate::records::{LENGTH, MEASURED, RATES, cpu_time, tempfile};

/// The traced program.
const SUBJECT: &str = include_str!("beside/subject.c");
/// The tracepoints of the program.
const TRACEPOINTS: &str = include_str!("beside/tracepoints.h");

/// The user `nobody`. A session daemon of root serves the whole machine; one of another user serves only its `LTTNG_HOME`.
const NOBODY: u32 = 65534;
/// Options of `lttng`: start no daemon, and ignore that of root, which serves only users of a group.
const ALONE: [&str; 2] = ["--no-sessiond", "--group=bench-process"];
/// The time in which a daemon has to start, or to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two rounds, in which LTTng's consumer empties the buffers.
const PAUSE: Duration = Duration::from_millis(2);

/// A tracepoint of the program: its row, the letter that makes the program fire it, and its name.
type Event = (&'static str, char, &'static str);

/// The rows of LTTng-UST.
const EVENTS: [Event; 2] =
    [("two u64", '2', "bench:two"), ("a 16-byte string and a u64", 't', "bench:text")];

/// A clause of bpftrace: its row, the letter that makes the program call the function, function and action, and the text before the
/// counter in the output of bpftrace.
type Clause = (&'static str, char, &'static str, &'static str);

/// The rows of bpftrace.
const CLAUSES: [Clause; 3] = [
    ("@ = count()", 'c', "hit_count { @ = count(); }", "@: "),
    ("@[arg0] = count()", 'n', "hit_number { @n[arg0] = count(); }", "@n[7]: "),
    (
        "@[str(arg0)] = count(), 16 bytes",
        's',
        "hit_string { @s[str(arg0)] = count(); }",
        "@s[sixteen bytes ok]: ",
    ),
];
/// The width of the first column.
const WIDTH: usize = 34;

/// The rounds of a table.
#[derive(Clone, Copy)]
pub struct Rounds {
    /// Rounds that count; one more comes first.
    pub rounds: u32,
    /// Events of a row in a round.
    pub calls: u64,
}

impl Rounds {
    /// Returns the number of events of a row in all rounds.
    fn fired(self) -> u64 {
        (u64::from(self.rounds) + 1) * self.calls
    }

    /// Fires the events in turn, and returns the fastest round of each, the median and the slowest, in nanoseconds an event.
    fn measure(
        self,
        subject: &mut Subject,
        letters: impl IntoIterator<Item = char>,
    ) -> Result<Vec<[f64; 3]>> {
        let mut rows: Vec<_> = letters.into_iter().map(|letter| (letter, Vec::new())).collect();
        for round in 0..=self.rounds {
            for (letter, times) in &mut rows {
                let time = subject.fire(*letter, self.calls, 0)?.as_nanos() as f64;
                // The first round touches memory for the first time.
                if round != 0 {
                    times.push(time / self.calls as f64);
                }
                std::thread::sleep(PAUSE);
            }
        }
        rows.iter_mut().map(|(_, times)| spread(times)).collect()
    }
}

/// Prints a table for each tool, or one line that says why there is none.
pub fn run(rounds: Rounds) {
    match lttng(rounds) {
        Ok(table) => print!("{table}"),
        Err(error) => println!("LTTng-UST: not measured: {error:#}"),
    }
    println!();
    match bpftrace(rounds) {
        Ok(table) => print!("{table}"),
        Err(error) => println!("bpftrace: not measured: {error:#}"),
    }
    println!();
    match uftrace::run(rounds) {
        Ok(table) => print!("{table}"),
        Err(error) => println!("uftrace: not measured: {error:#}"),
    }
}

/// Measures LTTng-UST and babeltrace2.
fn lttng(rounds: Rounds) -> Result<String> {
    for program in ["lttng", "lttng-sessiond"] {
        output(Command::new(program).arg("--version"))?;
    }
    let reader = output(Command::new("babeltrace2").arg("--version"));
    let folder = compile(&["-DLTTNG", "-llttng-ust", "-ldl"])?;
    let daemon = Daemon::start(folder.path(), reader.is_ok())?;
    let fired = rounds.fired() * EVENTS.len() as u64;
    let loops = |subject: &mut Subject| rounds.measure(subject, EVENTS.map(|event| event.1));
    let (times, Trace { discarded, .. }) = daemon.record("bench:*", fired, loops)?;
    let mut table = format!(
        "{:WIDTH$}  {:>8}  {:>13}  {:>7}  {:>15}  {:>15}\n",
        "LTTNG-UST", "ns/event", "min..max", "bytes", "without discard", "babeltrace2, ns"
    );
    for (event, [min, median, max]) in EVENTS.into_iter().zip(times) {
        let mut most = 0;
        for rate in RATES {
            let (time, trace) = daemon.fire(event, rate)?;
            // The second condition: the program could not fire as fast.
            if trace.discarded != 0 || time > LENGTH + LENGTH / 20 {
                break;
            }
            most = rate;
        }
        let (_, trace) = daemon.fire(event, MEASURED)?;
        let each = |sum: u64| sum as f64 / trace.recorded as f64;
        let bytes = each(size(trace.folder.path())?);
        let reading = match daemon.is_read {
            true => format!("{:.0}", each(print(trace.folder.path())?)),
            false => "-".to_owned(),
        };
        let spread = format!("{min:.1}..{max:.1}");
        writeln!(
            table,
            "{:WIDTH$}  {median:>8.1}  {spread:>13}  {bytes:>7.1}  {most:>13}/s  {reading:>15}",
            event.0
        )?;
    }
    writeln!(table, "discarded in the loops of ns/event: {discarded} of {fired} events")?;
    if let Err(error) = reader {
        writeln!(table, "babeltrace2: not measured, and LTTng's counters not checked: {error:#}")?;
    }
    Ok(table)
}

/// Measures bpftrace, which starts the program itself and ends with it.
fn bpftrace(rounds: Rounds) -> Result<String> {
    output(Command::new("bpftrace").arg("--version"))?;
    let folder = compile(&[])?;
    let program = folder.path().join("subject");
    let script = CLAUSES.map(|clause| format!("uprobe:{}:{}", program.display(), clause.2));
    let mut subject = Subject::start(
        Command::new("bpftrace").arg("-c").arg(&program).arg("-e").arg(script.join(" ")),
    )?;
    let times = rounds.measure(&mut subject, CLAUSES.map(|clause| clause.1))?;
    let counters = subject.finish()?;
    let mut table = format!("{:WIDTH$}  {:>8}  {:>15}\n", "BPFTRACE", "ns/hit", "min..max");
    for ((name, _, _, before), [min, median, max]) in CLAUSES.into_iter().zip(times) {
        let counted = counters.lines().find_map(|line| line.strip_prefix(before));
        let (counted, fired) = (counted.unwrap_or("none"), rounds.fired());
        ensure!(counted == fired.to_string(), "{name}: {counted} of {fired} hits");
        let spread = format!("{min:.1}..{max:.1}");
        writeln!(table, "{name:WIDTH$}  {median:>8.1}  {spread:>15}")?;
    }
    Ok(table)
}

/// Creates a temporary folder that belongs to the user of the commands of [`private`].
fn new_folder(parent: &Path) -> Result<TempDir> {
    let folder = tempfile::tempdir_in(parent)
        .with_context(|| format!("creating a folder in {}", parent.display()))?;
    if geteuid().is_root() {
        chown(&folder, Some(NOBODY), Some(NOBODY)).context("changing the owner of a folder")?;
    }
    Ok(folder)
}

/// Compiles the program, `subject`, in a new folder.
fn compile(flags: &[&str]) -> Result<TempDir> {
    let folder = new_folder(&std::env::temp_dir())?;
    std::fs::write(folder.path().join("subject.c"), SUBJECT)?;
    std::fs::write(folder.path().join("tracepoints.h"), TRACEPOINTS)?;
    let mut gcc = Command::new("gcc");
    gcc.current_dir(folder.path()).args(["-O2", "-I.", "-o", "subject", "subject.c"]).args(flags);
    output(&mut gcc)?;
    Ok(folder)
}

/// Runs a program to its end, and returns its standard output.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("`{name}` is not installed"),
        result => result.with_context(|| format!("starting `{name}`"))?,
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{name}` failed: {}", reason(&errors));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the line of a program's messages that says why it failed: the last error.
fn reason(messages: &str) -> &str {
    let is_error = |line: &&str| line.to_lowercase().contains("error");
    messages.lines().rfind(is_error).or(messages.lines().last()).unwrap_or("it printed no error")
}

/// The running C program. It ends when this is dropped.
struct Subject {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Subject {
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting the C program")?;
        let output = BufReader::new(child.stdout.take().context("a child without output")?);
        Ok(Self { child, output })
    }

    /// Fires events, as fast as possible or at a rate a second, and returns the time that this took.
    fn fire(&mut self, letter: char, count: u64, rate: u64) -> Result<Duration> {
        let input = self.child.stdin.as_mut().context("a child without input")?;
        // If this fails, the program has ended, and the end of its output follows.
        let _ = writeln!(input, "{letter} {count} {rate}");
        let mut line = String::new();
        while self.output.read_line(&mut line)? != 0 {
            // bpftrace prints a line of its own first.
            if let Ok(time) = line.trim().parse() {
                return Ok(Duration::from_nanos(time));
            }
            line.clear();
        }
        let mut messages = String::new();
        self.child.stderr.take().context("no messages")?.read_to_string(&mut messages)?;
        bail!("the traced program has ended: {}", reason(&messages))
    }

    /// Waits for the end of the program, and returns the rest of its output.
    fn finish(mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the traced program failed: {status}");
        Ok(rest)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session daemon of LTTng, whose files are all in one folder. It ends when this is dropped, and its consumer daemon with it.
struct Daemon {
    home: PathBuf,
    child: Child,
    /// This machine has babeltrace2, so recorded events are counted.
    is_read: bool,
}

impl Daemon {
    fn start(home: &Path, is_read: bool) -> Result<Self> {
        let mut command = private("lttng-sessiond", home);
        command.args(["--no-kernel", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("starting `lttng-sessiond`")?;
        let daemon = Self { home: home.to_owned(), child, is_read };
        let start = Instant::now();
        while let Err(error) = daemon.lttng(&["list"]) {
            ensure!(start.elapsed() < PATIENCE, "`lttng-sessiond` does not answer: {error:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// Runs a command of `lttng` with this daemon.
    fn lttng(&self, arguments: &[&str]) -> Result<String> {
        output(private("lttng", &self.home).args(ALONE).args(arguments))
    }

    /// Fires events of the program in a session of its own, with LTTng's default buffers.
    fn record<T>(
        &self,
        tracepoint: &str,
        fired: u64,
        fire: impl FnOnce(&mut Subject) -> Result<T>,
    ) -> Result<(T, Trace)> {
        let folder = new_folder(&self.home)?;
        self.lttng(&["create", "bench", &format!("--output={}", folder.path().display())])?;
        self.lttng(&["enable-event", "--userspace", tracepoint, "--session=bench"])?;
        self.lttng(&["start", "bench"])?;
        let mut subject = Subject::start(&mut private("./subject", &self.home))?;
        let times = fire(&mut subject)?;
        subject.finish()?;
        self.lttng(&["stop", "bench"])?;
        let listed = self.lttng(&["--mi=xml", "list", "bench"])?;
        self.lttng(&["destroy", "bench"])?;
        let discarded = listed.split("<discarded_events>").nth(1).unwrap_or_default();
        let discarded = discarded.split('<').next().unwrap_or_default();
        let discarded = discarded.parse().context("`lttng list` shows no discarded events")?;
        let recorded =
            if self.is_read { count(folder.path())? } else { fired.saturating_sub(discarded) };
        ensure!(
            recorded + discarded == fired,
            "{tracepoint}: {fired} events fired, but {recorded} recorded and {discarded} discarded"
        );
        Ok((times, Trace { folder, recorded, discarded }))
    }

    /// Fires an event at a rate a second, and returns the time that this took.
    fn fire(&self, (_, letter, tracepoint): Event, rate: u64) -> Result<(Duration, Trace)> {
        let fired = rate * LENGTH.as_secs();
        self.record(tracepoint, fired, |subject| subject.fire(letter, fired, rate))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command that has this folder as home for LTTng, and does not run as root.
fn private(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home).env("LTTNG_HOME", home).env("HOME", home);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// A recorded trace of LTTng.
struct Trace {
    folder: TempDir,
    recorded: u64,
    /// Events that found no space in a buffer.
    discarded: u64,
}

/// Counts the events of a trace with babeltrace2.
fn count(trace: &Path) -> Result<u64> {
    let mut command = Command::new("babeltrace2");
    command.args(["--component=sink.utils.counter", "--params=step=+0"]).arg(trace);
    let text = output(&mut command)?;
    let events = text.lines().find_map(|line| line.trim().strip_suffix(" Event messages"));
    events.context("babeltrace2 counted no events")?.parse().context("the output of babeltrace2")
}

/// Prints a trace as text to a file, and returns the CPU time of babeltrace2 in nanoseconds.
fn print(trace: &Path) -> Result<u64> {
    let mut command = Command::new("babeltrace2");
    command.arg(trace).stdout(tempfile()?).stderr(Stdio::null());
    let mut child = command.spawn().context("starting `babeltrace2`")?;
    // The kernel keeps the times of an ended process until its parent has waited for it.
    let until = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), until)?;
    let time = cpu_time(&child.id().to_string());
    ensure!(child.wait()?.success(), "`babeltrace2` failed");
    time
}

/// Returns the size of the streams of a trace: all files except the metadata and the indexes.
fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == "index" || entry.file_name() == "metadata" {
            continue;
        }
        sum += match entry.file_type()?.is_dir() {
            true => size(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(sum)
}
