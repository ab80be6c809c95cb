//! The traced process: the ways in which it can end, and several consumers that trace it.
#![cfg(target_os = "linux")]

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sdt_core::ops::{Privileges, ProviderAttr};
use sdt_core::runtime::{Probe, Provider, Slot, arg};
use sdt_core::{sdt_probe, sdt_provider};

/// The environment variable that makes this program the traced process.
const ROLE: &str = "SDT_TARGET_SUBJECT";

sdt_provider! {
    /// The work of the traced process.
    pub itself {
        /// One round.
        fn round(times: u64);
    }
}

static PROBES: [Slot; 4] = [const { Slot::new() }; 4];
static SCRIPT: Provider = Provider::new(&PROBES);

/// Runs as the subject: loops and ends as the test requests.
#[test]
fn subject() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let _traced = sdt_process::start().unwrap();
    // The arena has room for probes that are created at run time, too.
    SCRIPT.open(c"script", &ProviderAttr::SDT, Privileges::USER).unwrap();
    let _lookup = SCRIPT.add(c"main", c"lookup", &[arg::<i64>()]).unwrap();
    println!("> started");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match line.parse::<u64>() {
            Ok(times) => (0..times).for_each(|times| sdt_probe!(itself::round, times)),
            // Aborts as soon as a consumer traces the probe: only then its argument is evaluated.
            Err(_) if line == "abort" => loop {
                sdt_probe!(itself::round, abort());
            },
            Err(_) if line == "churn" => drop(std::thread::spawn(churn)),
            Err(_) => std::process::exit(3),
        }
    }
}

fn abort() -> u64 {
    std::process::abort()
}

/// Creates and removes probes without end, so that the IDs of the probes change.
fn churn() {
    let mut there = VecDeque::new();
    for name in [c"one", c"two", c"three"].into_iter().cycle() {
        if there.len() == 2 {
            let first: Probe = there.pop_front().unwrap();
            // `remove` fails while the probe is enabled, and while a consumer lists probes.
            while first.remove().is_err() {}
        }
        there.extend(SCRIPT.add(c"main", name, &[arg::<i64>()]));
    }
}

struct Subject {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Subject {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["subject", "--exact", "--nocapture"])
            .env(ROLE, "1")
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains("> started")).unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, _folder: folder }
    }

    fn say(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
    }

    fn trace(&self, options: &[&str], text: &str) -> Tracer {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dtrace"))
            .args(["-p", &self.child.id().to_string()])
            .args(options)
            .args(["-n", text])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        if !options.contains(&"-q") {
            said.read_line(&mut first).unwrap();
        }
        Tracer { child, out, said, first }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // Kills the process if it has not ended, because a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Tracer {
    child: Child,
    out: BufReader<ChildStdout>,
    said: BufReader<ChildStderr>,
    /// The first line of dtrace's output.
    first: String,
}

impl Tracer {
    /// Returns the rest of its output, its messages and its status.
    fn end(mut self) -> (String, String, Option<i32>) {
        let [mut out, mut said] = [String::new(), String::new()];
        self.out.read_to_string(&mut out).unwrap();
        self.said.read_to_string(&mut said).unwrap();
        (out, said, self.child.wait().unwrap().code())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const COUNT: &str = "itself:::round { @ = count(); }";

/// The process returns from `main` or calls `exit`: all earlier records are printed.
#[test]
fn who_ends_hands_over_what_was_recorded() {
    for returns in [true, false] {
        let mut subject = Subject::new();
        let tracer = subject.trace(&["-x", "aggrate=1h"], COUNT);
        assert!(tracer.first.ends_with("matched 1 probe\n"), "{}", tracer.first);
        subject.say("1000");
        match returns {
            true => drop(subject.child.stdin.take()),
            false => subject.say("exit"),
        }
        let (out, said, status) = tracer.end();
        let id = subject.child.id();
        assert_eq!(said, format!("dtrace: pid {id} has exited\n"));
        assert_eq!((out.trim(), status), ("1000", Some(0)));
        let code = subject.child.wait().unwrap().code();
        assert_eq!(code, Some(if returns { 0 } else { 3 }));
    }
}

/// `exit()` of a program in D is no end of the process.
#[test]
fn an_exit_of_a_program_is_its_own() {
    let mut subject = Subject::new();
    let tracer = subject.trace(&[], "itself:::round /arg0 == 10/ { exit(4); }");
    subject.say("100");
    let (_, said, status) = tracer.end();
    assert_eq!((&*said, status), ("", Some(4)));
}

/// dtrace prints the records that it has received until then.
#[test]
fn a_process_that_is_killed_is_no_failure() {
    let mut subject = Subject::new();
    let text = format!("{COUNT} tick-20ms {{ printf(\"\\n\"); printa(\"so far %@d\\n\", @); }}");
    let mut tracer = subject.trace(&["-q", "-x", "aggrate=10ms", "-x", "switchrate=10ms"], &text);
    let mut lines = tracer.out.by_ref().lines().map(Result::unwrap);
    // Waits until dtrace traces the process.
    lines.find(|line| line.is_empty() || line.starts_with("so far")).unwrap();
    subject.say("1000");
    lines.find(|line| line == "so far 1000").unwrap();
    kill_process(Pid::from_child(&subject.child), Signal::KILL).unwrap();
    let (_, said, status) = tracer.end();
    assert_eq!((&*said, status), ("", Some(0)));
}

/// The process may end while its probes are being enabled, or directly after that.
#[test]
fn who_ends_at_once_has_ended() {
    for _ in 0..5 {
        let mut subject = Subject::new();
        subject.say("abort");
        let tracer = subject.trace(&["-q"], "itself:::round");
        let (_, said, _) = tracer.end();
        // With `-q`, dtrace reports the end of the process only if tracing had not begun.
        let id = subject.child.id();
        assert!(["", &format!("dtrace: pid {id} has exited\n")].contains(&&*said), "{said}");
    }
}

/// dtrace names the reason why the process does not answer, and traces it once it continues.
#[test]
fn a_stopped_process_is_named() {
    let mut subject = Subject::new();
    let id = subject.child.id();
    kill_process(Pid::from_child(&subject.child), Signal::STOP).unwrap();
    let mut tracer = subject.trace(&[], COUNT);
    let stopped = format!(
        "dtrace: process {id} is stopped, as by SIGSTOP or Ctrl-Z; continue it with kill -CONT {id}\n"
    );
    assert_eq!(tracer.first, stopped);
    kill_process(Pid::from_child(&subject.child), Signal::CONT).unwrap();
    let mut matched = String::new();
    tracer.said.read_line(&mut matched).unwrap();
    assert!(matched.ends_with("matched 1 probe\n"), "{matched}");
    drop(subject.child.stdin.take());
    assert_eq!(tracer.end().2, Some(0));
}

/// A probe may disappear between the list and the request for its details.
#[test]
fn probes_that_come_and_go_are_no_failure() {
    let mut subject = Subject::new();
    subject.say("churn");
    let dtrace = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        let output = command.args(["-p", &subject.child.id().to_string()]).args(args).output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // There are moments in which none of the probes exists.
        let is_none = |line: &&str| {
            *line == "dtrace: failed to match script:::: No probe matches description"
                || line.starts_with("dtrace: hint: there is no provider script")
        };
        let said: Vec<&str> = said.lines().filter(|line| !is_none(line)).collect();
        assert_eq!((&said[..], output.status.code()), (&[][..], Some(0)), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for _ in 0..20 {
        let listed = dtrace(&["-l", "-v", "-P", "script"]);
        let described = listed.matches("args[0]: int64_t").count();
        assert_eq!(
            described,
            listed.lines().filter(|line| line.contains(" script ")).count(),
            "{listed}"
        );
        dtrace(&["-q", "-n", "BEGIN { exit(0); } script::: { trace(arg0); }", "-Z"]);
    }
}

/// The promised number of consumers fits with dtrace's default sizes; the next one gets an error that says why.
#[test]
fn eight_trace_one() {
    let mut subject = Subject::new();
    let tracers: Vec<_> = (0..8).map(|_| subject.trace(&[], COUNT)).collect();
    for tracer in &tracers {
        assert!(tracer.first.ends_with("matched 1 probe\n"), "{}", tracer.first);
    }
    let ninth = subject.trace(&[], COUNT);
    let why = "dtrace: 8 consumers trace this process, which is the limit; stop one of them\n";
    assert_eq!(ninth.first, why);
    assert_eq!(ninth.end().2, Some(1));
    subject.say("1000");
    drop(subject.child.stdin.take());
    for tracer in tracers {
        let (out, _, status) = tracer.end();
        assert_eq!((out.trim(), status), ("1000", Some(0)));
    }
}
