//! `--flamegraph` of the kernel's stacks: from where the probe of a module fired, and where timers found the CPUs.

use std::process::Command;

use cargo_sdt::internal::arch::Arch;

use crate::bench::{module_file, on_every_architecture};
use crate::cli::short_log;

on_every_architecture!(functions_are_in_the_picture);

fn draw(arch: Arch, arguments: &[&str]) -> (Option<String>, String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture.svg");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["dtrace", "--arch", arch.name(), "-q", "--flamegraph"]).arg(&file);
    command.args(arguments).arg("--module").arg(module_file(arch));
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (std::fs::read_to_string(&file).ok(), error, output.status.code())
}

fn functions_are_in_the_picture(arch: Arch) {
    let (_folder, log) = short_log(30);
    let workload = ["--workload", log.to_str().unwrap()];
    let by_path = ["-n", "proc:::exec-success { @[stack(), stringof(arg0)] = count(); }"];
    let (picture, error, status) = draw(arch, &[by_path, workload].concat());
    assert_eq!(status, Some(0), "{error}");
    let picture = picture.expect("a picture");
    // The module's function, the kernel's functions that called it, and a key in addition to the stack.
    for name in
        ["proc_example.ko`proc_example.on_exec (", "kernel`", "exec::execute (", "/bin/prog7 ("]
    {
        assert!(picture.contains(name), "{name}: {picture}");
    }
    assert!(!picture.contains("on_exec+"), "offsets are left out");

    let ticks = "profile-97 { @[stack()] = count(); } tick-500ms { exit(0); }";
    let (picture, error, status) = draw(arch, &["-n", ticks, "-c", "sleep 600"]);
    assert_eq!(status, Some(0), "{error}");
    assert!(picture.expect("a picture").contains("work_forever ("), "CPUs that sleep");

    // No process executes code, so no process has a stack.
    let users = ["-n", "proc:::exec-success { @[ustack()] = count(); }"];
    let (picture, error, status) = draw(arch, &[users, workload].concat());
    assert!(error.contains("the aggregated stacks have no frames"), "{error}");
    assert_eq!((picture, status), (None, Some(1)));
}
