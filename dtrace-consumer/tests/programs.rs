//! `dtrace -c` with a program that hosts its probes, and several `-p`. This test program is the traced program.
#![cfg(target_os = "linux")]

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    /// The traced program.
    pub subject {
        /// A round has begun.
        fn round(times: u64);
    }
}

/// The environment variable that makes [`subject`] the traced program: the number of rounds, the milliseconds of each,
/// and `wait` if they begin when the probe is enabled.
const ROUNDS: &str = "TEST_SUBJECT_ROUNDS";

#[test]
fn subject() {
    let Ok(rounds) = std::env::var(ROUNDS) else { return };
    let words: Vec<&str> = rounds.split(' ').collect();
    let pause = Duration::from_millis(words[1].parse().unwrap());
    let traced = sdt_process::start().unwrap();
    while words.get(2) == Some(&"wait") && !sdt_enabled!(subject::round) {
        std::thread::sleep(Duration::from_millis(1));
    }
    for times in 0..words[0].parse().unwrap() {
        sdt_probe!(subject::round, times);
        std::thread::sleep(pause);
    }
    drop(traced);
}

/// The command line of the traced program.
fn command() -> String {
    let path = std::env::current_exe().unwrap();
    format!("{} --exact subject", path.display())
}

fn dtrace(rounds: &str, args: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    let Output { stdout, stderr, status } =
        command.env(ROUNDS, rounds).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr), status.code())
}

/// Prints the number of a round.
const ROUND: &str = "subject:::round { printf(\"\\nround %d\\n\", arg0); }";
/// Prints whether the traced process is `$target`.
const TARGET: &str = "BEGIN { printf(\"\\nround target %d\\n\", $target == pid); }";

/// Returns the lines of the D program in the output, without the lines of the traced program's test harness.
fn printed(output: &str) -> Vec<&str> {
    output.lines().filter_map(|line| line.strip_prefix("round ")).collect()
}

#[test]
fn a_program_is_traced_from_its_first_hit_to_its_last() {
    let (out, error, status) = dtrace("40 0", &["-c", &command(), "-n", ROUND, "-n", TARGET]);
    let lines = printed(&out);
    assert!(lines.contains(&"target 1"), "{out}");
    let rounds: Vec<String> = (0..40).map(|times| times.to_string()).collect();
    assert_eq!(
        lines.iter().filter(|line| !line.starts_with("target")).collect::<Vec<_>>(),
        rounds.iter().collect::<Vec<_>>(),
        "{out}{error}"
    );
    assert!(error.contains("has exited"), "{error}");
    assert_eq!(status, Some(0), "{error}");
}

#[test]
fn a_program_is_listed() {
    let (out, error, status) = dtrace("1 0", &["-l", "-P", "subject", "-c", &command()]);
    assert!(out.contains("subject") && out.trim_end().ends_with("round"), "{out}");
    assert_eq!((&*error, status), ("", Some(0)));
}

#[test]
fn a_run_that_ends_first_leaves_the_program_running() {
    let (out, error, status) = dtrace(
        "100 1",
        &[
            "-q",
            "-c",
            &command(),
            "-n",
            "subject:::round { printf(\"\\nround %d\\n\", arg0); exit(7); }",
        ],
    );
    assert_eq!((printed(&out), status), (vec!["0"], Some(7)), "{error}");
}

#[test]
fn a_program_without_probes_is_an_error() {
    let (_, error, status) = dtrace("1 0", &["-c", "true", "-n", "BEGIN"]);
    assert!(error.contains("has exited without hosting probes"), "{error}");
    assert_eq!(status, Some(1));
    let (_, error, status) = dtrace("1 0", &["-c", "/nowhere/program", "-n", "BEGIN"]);
    assert_eq!(
        (&*error, status),
        ("dtrace: failed to execute /nowhere/program: No such file or directory\n", Some(1))
    );
}

/// Starts the program, and waits until it can be traced.
fn spawn(rounds: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "subject"]).env(ROUNDS, rounds).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let id = child.id().to_string();
    let is_listed = || {
        let list = Command::new(env!("CARGO_BIN_EXE_dtrace")).args(["-l", "-p", &id]).output();
        list.unwrap().status.success()
    };
    while !is_listed() {
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn several_processes_are_one_trace() {
    let mut all = [spawn("1000000 1"), spawn("1000000 1")];
    let [first, second] = [0, 1].map(|index: usize| all[index].id().to_string());
    // The first process ends during the run.
    let killed = "subject:::round /pid == $target && n++ == 5/ { raise(9); }";
    let ended = "subject:::round /pid != $target && n++ == 1500/ { exit(0); }";
    let (out, error, status) = dtrace(
        "0 0",
        &[
            "-q",
            "-w",
            "-p",
            &first,
            "-p",
            &second,
            "-p",
            &first,
            "-n",
            "subject:::round { @[pid] = count(); }",
            "-n",
            killed,
            "-n",
            ended,
        ],
    );
    for child in &mut all {
        let _ = child.kill();
        child.wait().unwrap();
    }
    assert_eq!(status, Some(0), "{error}");
    assert!(
        error.contains(&format!("process:{first}: "))
            && error.contains("the trace continues without it"),
        "{error}"
    );
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|row: &Vec<&str>| !row.is_empty())
        .collect();
    let of = |id: &str| rows.iter().find(|row| row[0] == format!("process:{id}"));
    assert!(
        of(&second).is_some_and(|row| row[1] == second && row[2].parse::<u64>().unwrap() > 1000),
        "{out}"
    );
}

#[test]
fn a_process_that_exits_leaves_the_trace_to_the_others() {
    let mut all = [spawn("400 1 wait"), spawn("1000000 1")];
    let [first, second] = [0, 1].map(|index: usize| all[index].id().to_string());
    let ended = "subject:::round /pid != $target && n++ == 3000/ { exit(3); }";
    let (out, error, status) = dtrace(
        "0 0",
        &[
            "-q",
            "-p",
            &first,
            "-p",
            &second,
            "-n",
            "subject:::round { @[pid] = count(); }",
            "-n",
            ended,
        ],
    );
    for child in &mut all {
        let _ = child.kill();
        child.wait().unwrap();
    }
    assert_eq!(status, Some(3), "{error}");
    assert!(
        error.contains(&format!("process:{first} has ended; the trace continues without it")),
        "{error}"
    );
    assert!(
        out.contains(&format!("process:{first}")) && out.contains(&format!("process:{second}")),
        "{out}"
    );
}
