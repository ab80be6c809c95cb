//! Compares our output with that of a real dtrace for the same module and the same command line: see
//! `golden/README.md`.

use harness::workspace;
use std::path::PathBuf;
use std::process::Command;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::platform::Route;

use crate::bench::{module_file_by, on_every_architecture};
use crate::machine::Machine;

const PROBE: &str = "proc:proc_example::exec-success";
const NO_PROBE: &str = "proc:proc_example::nosuch";

/// A recording: its options, its output and its status.
const RECORDED: [(&str, &[&str], i32); 7] = [
    ("list", &["-l", "-n", PROBE], 0),
    ("list-verbose", &["-l", "-v", "-n", PROBE], 0),
    ("hits", &["-n", PROBE], 0),
    ("quiet", &["-q", "-n", PROBE], 0),
    ("no-match", &["-n", NO_PROBE], 1),
    ("no-match-list", &["-l", "-n", NO_PROBE], 0),
    ("no-match-z", &["-Z", "-n", NO_PROBE], 0),
];

/// The three executions that took place during the recording.
const LOG: &str = "100 execve(\"/bin/ls\", [\"ls\"], 0x1 /* 3 vars */) = 0\n\
                   101 execve(\"/bin/date\", [\"date\"], 0x1 /* 3 vars */) = 0\n\
                   102 execve(\"/bin/ls\", [\"ls\"], 0x1 /* 3 vars */) = 0\n";

on_every_architecture!(output_is_that_of_the_real_dtrace);

fn output_is_that_of_the_real_dtrace(arch: Arch) {
    by_route(arch, Route::Native);
}

#[test]
fn the_provider_route_prints_the_same() {
    by_route(Arch::X86_64, Route::Provider);
}

/// Returns messages without those that only our tools print: about long steps, and hints.
pub fn without_ours(messages: &str) -> String {
    let is_ours =
        |line: &&str| ["xtask: ", "dtrace: hint: "].iter().any(|prefix| line.starts_with(prefix));
    messages.split_inclusive('\n').filter(|line| !is_ours(line)).collect()
}

fn by_route(arch: Arch, route: Route) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, LOG).unwrap();
    let machine = Machine::with(&["--arch", arch.name()], &[module_file_by(arch, route)]);
    for (name, options, status) in RECORDED {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("dtrace").arg("--socket").arg(machine.socket()).args(options);
        if !options.contains(&"-l") {
            command.arg("--workload").arg(&log);
        }
        let output = command.output().unwrap();
        let err = without_ours(&String::from_utf8_lossy(&output.stderr));
        assert_eq!(masked(&err), masked(&golden(name, "err")), "{name}");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(masked(&without_names(&out)), masked(&golden(name, "out")), "{name}");
        if name == "list-verbose" {
            assert!(out.contains("\t\targs[0]: char * (args.path)\n"), "{out}");
        }
        assert_eq!(output.status.code(), Some(status), "{name}");
    }
}

fn golden(name: &str, stream: &str) -> String {
    let file: PathBuf =
        workspace::root().join("tests/qemu/golden").join(format!("{name}.{stream}"));
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A listing without the names of arguments, which the real dtrace(1) does not show.
pub(crate) fn without_names(text: &str) -> String {
    let line = |line: &str| match line.split_once(" (args.") {
        Some((before, _)) if line.starts_with("\t\targs[") => format!("{before}\n"),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Text without the numbers that lines begin with, CPUs and ids: of each only the last column stays.
pub(crate) fn masked(text: &str) -> String {
    text.split_inclusive('\n').map(masked_line).collect()
}

fn masked_line(line: &str) -> String {
    let end = line.find(|c: char| c != ' ' && !c.is_ascii_digit()).unwrap_or(line.len());
    let (numbers, rest) = line.split_at(end);
    let mut masked = String::new();
    let mut letters = numbers.chars().peekable();
    while let Some(letter) = letters.next() {
        let in_number = letters.peek().is_some_and(char::is_ascii_digit);
        masked.push(match letter {
            ' ' => ' ',
            _ if in_number => ' ',
            _ => '#',
        });
    }
    masked + rest
}

#[test]
fn numbers_are_masked_by_their_last_column() {
    assert_eq!(masked_line("  249       proc\n"), "    #       proc\n");
    assert_eq!(masked_line("    7       proc\n"), "    #       proc\n");
    assert_eq!(masked_line(" 12    249   none:x\n"), "  #      #   none:x\n");
    assert_eq!(masked_line("   ID   PROVIDER\n"), "   ID   PROVIDER\n");
}
