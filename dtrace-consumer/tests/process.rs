//! `dtrace -p`, with this very test program as the process that is traced.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use recording_host::Done;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    /// The work of this program.
    pub itself {
        /// One round.
        fn round(times: u64);
    }
}

fn dtrace(args: &[&str]) -> (String, String, Option<i32>) {
    let id = std::process::id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    let output = command.args(["-p", &id]).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[inline(never)]
fn goes_round(times: u64) {
    sdt_probe!(itself::round, times);
}

/// Runs a D program that makes a flame graph of the rounds. Returns the graph, and the messages and the status of dtrace.
fn flame_graph(action: &str) -> (Option<String>, String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rounds.svg");
    let program =
        format!("itself:::round {{ {action}; }} itself:::round /n++ == 20/ {{ exit(0); }}");
    let graph = ["-q", "-n", &program, "--flamegraph", file.to_str().unwrap()];
    let (_, error, status) = dtrace(&graph);
    (std::fs::read_to_string(&file).ok(), error, status)
}

#[test]
fn a_process_is_listed_and_traced() {
    let none = "the process hosts no probes: it has not called sdt_process::start, or has dropped the result";
    let id = std::process::id();
    let error = format!("dtrace: failed to connect to process:{id}: {none}\n");
    assert_eq!(dtrace(&["-l"]), (String::new(), error, Some(1)));

    let _traced = sdt_process::Options::new().module(c"program".to_owned()).start().unwrap();
    let (listed, error, status) = dtrace(&["-l", "-P", "itself"]);
    let words: Vec<Vec<_>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((words[1][1], words[1][2], words[1].last()), ("itself", "program", Some(&"round")));
    assert_eq!((words.len(), &*error, status), (2, "", Some(0)));

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Done(&done);
        scope.spawn(|| {
            let mut times = 0_u64;
            while !done.load(Ordering::Acquire) {
                goes_round(times);
                times += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        for action in ["@[ustack()] = count()", "@[stack(), execname] = quantize(arg0)"] {
            let (picture, error, status) = flame_graph(action);
            let picture = picture.unwrap_or_else(|| panic!("{error}"));
            assert!(picture.contains("<svg") && picture.contains("goes_round ("), "{picture}");
            assert!(!picture.contains("goes_round+"), "offsets are left out");
            assert_eq!(status, Some(0));
            let hints = error.lines().filter(|line| {
                line.contains("lack frames: ")
                    && line.contains("::goes_round was compiled without a frame pointer")
            });
            let is_told = cfg!(target_arch = "x86_64");
            assert_eq!(
                (error.lines().count(), hints.count()),
                (is_told.into(), is_told.into()),
                "{error}"
            );
        }
        // The record has no room for the callers.
        let (_, error, status) = flame_graph("@[stack(1)] = count()");
        assert_eq!((&*error, status), ("", Some(0)));
        let (picture, error, status) = flame_graph("@[execname] = count()");
        assert!(error.contains("no aggregation has a stack()"), "{error}");
        assert_eq!((picture, status), (None, Some(1)));

        let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
        command.args(["-p", &id.to_string(), "-n", "itself:::round"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let hits = lines.by_ref().filter(|line| line.ends_with(":round ")).take(3).count();
        // Ended as a user does it, and as `timeout` of coreutils: with two signals for one interrupt.
        let pid = rustix::process::Pid::from_child(&child);
        for _ in 0..2 {
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        }
        lines.for_each(drop);
        let output = child.wait_with_output().unwrap();
        drop(ends);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("dtrace: description 'itself:::round' matched 1 probe\n"),
            "{said}"
        );
        assert_eq!((hits, output.status.code()), (3, Some(0)), "{said}");
    });
}
