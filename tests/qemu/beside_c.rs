//! The example module in Rust and the same in C (`tests/conformance/c`): a consumer sees no difference between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::Route;
use harness::workspace;
use harness::zig::Zig;

use crate::bench::{boot, exec_success, log, name, on_every_architecture, tally};
use crate::cli::short_log;
use crate::golden::without_names;

on_every_architecture!(the_same_output, the_same_life);

/// Returns the module in C; `None` if the compiler cannot be fetched.
fn in_c(arch: Arch) -> Option<PathBuf> {
    let source = workspace::root().join("tests/conformance/c/proc_example.c");
    let zig = Zig::for_tests(15).unwrap_or_else(|error| panic!("{error}"))?;
    Some(zig.module(arch, &source).unwrap_or_else(|error| panic!("{arch}: {error}")))
}

/// Several threads build the module at the same time, as the parallel tests of this file do.
#[test]
fn many_build_it_at_once() {
    let Some(first) = in_c(Arch::X86_64) else { return };
    let first = fs::read(first).unwrap();
    let build = || {
        for _ in 0..5 {
            let built = fs::read(in_c(Arch::X86_64).unwrap()).unwrap();
            assert!(built == first, "{} bytes, not {}", built.len(), first.len());
        }
    };
    thread::scope(|scope| {
        [build; 4].map(|build| scope.spawn(build)).into_iter().for_each(|it| it.join().unwrap());
    });
}

/// The module in Rust.
fn in_rust(arch: Arch) -> PathBuf {
    let module = Module { route: Route::Native, ..workspace::example(arch) };
    module.build(None).unwrap_or_else(|error| panic!("{arch}: {error}"))
}

fn dtrace(arch: Arch, module: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    // C's module is for FreeBSD 1500001 and later.
    command.args(["dtrace", "--arch", arch.name(), "--cpus", "1", "--freebsd", "1500068"]);
    command.args(args);
    command.arg("--module").arg(module).output().unwrap()
}

fn the_same_output(arch: Arch) {
    let Some(c) = in_c(arch) else { return };
    let rust = in_rust(arch);
    let (_folder, log) = short_log(20);
    let log = log.to_str().unwrap();
    for (args, lines) in [
        (&["-l", "-v", "-P", "proc"][..], 16),
        (&["-n", "proc:::exec-success", "--workload", log], 22),
    ] {
        let [c, rust] = [&c, &rust].map(|module| dtrace(arch, module, args));
        let written = |output: &Output| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let complaints = text(&output.stderr);
            let complaints = complaints.lines().filter(|line| !line.starts_with("xtask: "));
            // A module in C declares no names.
            (
                without_names(&text(&output.stdout)),
                complaints.map(str::to_owned).collect::<Vec<_>>(),
            )
        };
        assert_eq!(c.status.code(), Some(0), "{args:?}: {c:?}");
        assert_eq!(written(&c), written(&rust), "{args:?}");
        assert_eq!(written(&c).0.lines().count(), lines, "{args:?}: {c:?}");
    }
}

/// Both modules are loaded, listed, enabled, hit, not unloaded while enabled, disabled, and unloaded; twice.
fn the_same_life(arch: Arch) {
    let Some(c) = in_c(arch) else { return };
    let mut seen = Vec::new();
    for file in [c, in_rust(arch)] {
        let mut session = boot(arch, 2);
        let mut of_file = Vec::new();
        for _ in 0..2 {
            let loaded = session.kldload_file(&file).unwrap();
            let consumer = session.open().unwrap();
            assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
            session.go(consumer).unwrap();
            session.exec(&log()[..100]).unwrap();
            let busy = session.kldunload(&loaded).unwrap_err().to_string();
            session.stop(consumer).unwrap();
            let tally = tally(&mut session, consumer);
            session.close(consumer).unwrap();
            let hits = session.counters().unwrap().hits;
            session.exec(&log()[..100]).unwrap();
            assert_eq!(session.counters().unwrap().hits, hits, "{loaded}: the probe is disabled");
            let listed = session.list(name("proc:::")).unwrap();
            let description = session.describe(listed[0].id).unwrap();
            session.kldunload(&loaded).unwrap();
            let left = session.list(name("proc:::")).unwrap().len();
            let listed: Vec<_> = listed
                .into_iter()
                .map(|of| (of.provider, of.module, of.function, of.name))
                .collect();
            let types: Vec<_> = description.types.into_iter().map(|of| of.native).collect();
            let attributes = (description.probe, description.args);
            of_file.push((tally.hits(), busy, listed, attributes, types, left));
        }
        seen.push(of_file);
    }
    assert_eq!(seen[0], seen[1], "C, and Rust");
    assert!(seen[0].iter().all(|life| life.0 == 100 && life.5 == 0), "{:?}", seen[0]);
}
