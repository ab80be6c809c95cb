//! The command `cargo xtask dtrace`: its output, byte for byte, and the ways in which it ends.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::output::CLOSED_STATUS;

use crate::bench::{boot_with_module, log, module_file, on_one_architecture, probe_id};
use crate::broken;

fn dtrace(arch: Arch, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["dtrace", "--arch", arch.name()]).args(args);
    command.arg("--module").arg(module_file(arch));
    command
}

fn run(arch: Arch, args: &[&str]) -> Output {
    let output = dtrace(arch, args).output().unwrap();
    // No machine of this run may remain: it would keep the pipes open, and output() would not return.
    assert!(output.status.code().is_some(), "{output:?}");
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// Returns standard error without the messages of long steps.
fn stderr(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with("xtask: "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A log of `count` executions.
pub(crate) fn short_log(count: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let lines: String = (0..count)
        .map(|n| {
            format!("{} execve(\"/bin/prog{n}\", [\"prog\"], 0x1 /* 3 vars */) = 0\n", 100 + n)
        })
        .collect();
    std::fs::write(&file, lines).unwrap();
    (folder, file)
}

on_one_architecture!(
    listing_reads_as_dtraces,
    hits_read_as_dtraces,
    the_recorded_log_is_played_whole,
    quiet_runs_say_nothing,
    descriptions_without_a_match,
    a_module_that_is_refused,
    an_interrupt_ends_it_in_order,
    a_reader_that_leaves_ends_it,
    the_time_of_day_is_the_hosts,
);

fn listing_reads_as_dtraces(arch: Arch) {
    let id = probe_id(&mut boot_with_module(arch, 2));
    let header = "   ID   PROVIDER            MODULE                          FUNCTION NAME\n";
    let row = format!(
        "{id:>5}       proc      proc_example                              none exec-success\n"
    );
    let output = run(arch, &["-l", "-n", "proc:::exec-success"]);
    assert_eq!(stdout(&output), format!("{header}{row}"));
    assert_eq!((stderr(&output), output.status.code()), (String::new(), Some(0)));

    let detail = "\n\tProbe Description Attributes\n\
        \t\tIdentifier Names: Private\n\t\tData Semantics:   Private\n\
        \t\tDependency Class: Unknown\n\n\tArgument Attributes\n\
        \t\tIdentifier Names: Private\n\t\tData Semantics:   Private\n\
        \t\tDependency Class: ISA\n\n\tArgument Types\n\t\targs[0]: char * (args.path)\n\n";
    let output = run(arch, &["-lv", "-P", "proc"]);
    assert_eq!(stdout(&output), format!("{header}{row}{detail}"));

    let output = run(arch, &["-l", "-n", "proc:rk::exec-success"]);
    assert_eq!(stdout(&output), header);
    let error = "dtrace: failed to match proc:rk::exec-success: No probe matches description\n\
        dtrace: hint: exec-success exists in another module or function: proc_example:none\n";
    assert_eq!((&*stderr(&output), output.status.code()), (error, Some(0)));
}

fn the_time_of_day_is_the_hosts(arch: Arch) {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let before = now();
    let output = run(arch, &["-qn", "BEGIN { trace(walltimestamp / 1000000000); exit(0); }"]);
    let then: u64 = stdout(&output).trim().parse().unwrap_or_else(|_| panic!("{output:?}"));
    // The emulator's counters may run slower or faster than the host's.
    assert!((before - 2..=now() + 2).contains(&then), "{before} {then}");
}

fn hits_read_as_dtraces(arch: Arch) {
    let id = probe_id(&mut boot_with_module(arch, 2));
    let (_folder, file) = short_log(40);
    let workload = file.to_str().unwrap();
    let output = run(arch, &["-n", "proc:::exec-success", "--workload", workload]);
    assert_eq!(stderr(&output), "dtrace: description 'proc:::exec-success' matched 1 probe\n");
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<&str> = stdout(&output).split('\n').collect();
    assert_eq!(lines[0], "CPU     ID                    FUNCTION:NAME");
    // The output ends with an empty line, like that of dtrace.
    assert_eq!(lines[41..], ["", ""]);
    let mut cpus = Vec::new();
    for line in &lines[1..41] {
        let cpu: u32 = line[..3].trim().parse().unwrap();
        assert_eq!(*line, format!("{cpu:>3} {id:>6}                none:exec-success "));
        cpus.push(cpu);
    }
    cpus.sort_unstable();
    cpus.dedup();
    assert_eq!(cpus, [0, 1]);
}

fn the_recorded_log_is_played_whole(arch: Arch) {
    let output = run(arch, &["-P", "proc", "--cpus", "4"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let hits = stdout(&output).lines().filter(|line| line.ends_with(":exec-success ")).count();
    assert_eq!(hits, log().len());
}

fn quiet_runs_say_nothing(arch: Arch) {
    let (_folder, file) = short_log(5);
    let workload = file.to_str().unwrap();
    let output = run(arch, &["-q", "-n", "exec-success", "--workload", workload]);
    assert_eq!((stdout(&output), &*stderr(&output)), ("\n", ""));
    assert_eq!(output.status.code(), Some(0));
}

fn descriptions_without_a_match(arch: Arch) {
    let output = run(arch, &["-n", "nosuch:::"]);
    let error = "dtrace: invalid probe specifier nosuch:::: probe description nosuch::: does not \
                 match any probes\n\
                 dtrace: hint: there is no provider nosuch; the providers are proc\n";
    assert_eq!((stdout(&output), &*stderr(&output)), ("", error));
    assert_eq!(output.status.code(), Some(1));

    let (_folder, file) = short_log(5);
    let workload = file.to_str().unwrap();
    let output =
        run(arch, &["-Z", "-n", "nosuch:::", "-n", "exec-success", "--workload", workload]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stderr(&output),
        "dtrace: description 'nosuch:::' matched 0 probes\n\
         dtrace: description 'exec-success' matched 1 probe\n"
    );
    assert_eq!(stdout(&output).lines().filter(|line| line.contains("none:exec")).count(), 5);
}

#[test]
fn command_lines_that_are_wrong() {
    let output = run(Arch::X86_64, &["-y"]);
    assert!(stderr(&output).starts_with("dtrace: illegal option -- y\nUsage: dtrace "));
    assert_eq!(output.status.code(), Some(2));
    let output = run(Arch::X86_64, &["-n", "BEGIN{ trace( }"]);
    assert_eq!(output.status.code(), Some(1));
    let error = "dtrace: invalid probe specifier BEGIN{ trace( }: syntax error near \"}\"\n";
    assert_eq!(stderr(&output), error);
}

fn a_module_that_is_refused(arch: Arch) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.ko");
    std::fs::write(&file, broken::unknown_symbol(arch)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = command
        .args(["dtrace", "--arch", arch.name(), "-l", "--module"])
        .arg(&file)
        .output()
        .unwrap();
    let error = stderr(&output);
    assert!(error.starts_with("dtrace: failed to load "), "{error}");
    assert!(error.contains(broken::UNKNOWN), "{error}");
    assert_eq!(output.status.code(), Some(1));
}

fn an_interrupt_ends_it_in_order(arch: Arch) {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // Long enough that the log does not end by itself before.
        let (_folder, file) = short_log(200_000);
        let mut command =
            dtrace(arch, &["-n", "exec-success", "--workload", file.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..50 {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert!(!line.trim().is_empty(), "hits are streamed");
        }
        let pid = i32::try_from(child.id()).unwrap();
        let interrupted = Instant::now();
        // SAFETY: no memory is involved; the process is a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "signal {signal}");
        assert!(interrupted.elapsed() < Duration::from_secs(120));
        assert!(rest.ends_with("\n\n"), "the end is an empty line");
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(!errors.contains("drop"), "{errors}");
    }
}

fn a_reader_that_leaves_ends_it(arch: Arch) {
    let (_folder, file) = short_log(200_000);
    let mut command = dtrace(arch, &["-n", "exec-success", "--workload", file.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("CPU "), "{line}");
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(i32::from(CLOSED_STATUS)));
    assert!(!errors.contains("<stdout>") && !errors.contains("panicked"), "{errors}");
}
