//! The stand-in kernel as illumos: loads, traces and unloads modules in C that are linked like modules in Rust. The lists of
//! probes and the console output are those of illumos's own code for the same modules.
#![cfg(target_arch = "x86_64")]

use std::path::Path;
use std::process::Command;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check::{self, Finding};
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::Os;
use cargo_sdt::internal::{link, setup};
use harness::session::{Session, SessionError};
use harness::workspace::{self, root};
use sdt_protocol::Exec;

use crate::bench::{boot, exec_success, log, name, tally};

/// `EBUSY`, `EINVAL`.
pub(crate) const BUSY: i32 = 16;
pub(crate) const INVALID: i32 = 22;

/// As for illumos's own kernel, which is compiled without tail calls, too (`usr/src/tools/cw`).
const CFLAGS: [&str; 14] = [
    "-O2",
    "-ffreestanding",
    "-mcmodel=kernel",
    "-mno-red-zone",
    "-mgeneral-regs-only",
    "-fno-pic",
    "-fno-pie",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-omit-frame-pointer",
    "-fno-asynchronous-unwind-tables",
    "-fno-optimize-sibling-calls",
    "-ffunction-sections",
    "-c",
];

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A module of `tests/modules/illumos-c`, compiled and linked.
fn linked(module: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (object, archive) = (folder.path().join("module.o"), folder.path().join("module.a"));
    let source = root().join("tests/modules/illumos-c").join(format!("{module}.c"));
    run(Command::new("cc").args(CFLAGS).args(flags).arg(source).arg("-o").arg(&object));
    run(Command::new("ar").arg("rc").arg(&archive).arg(&object));
    link(&archive, folder.path())
}

fn link(archive: &Path, folder: &Path) -> Vec<u8> {
    let lld = setup::lld().expect("lld is there");
    link::illumos::module(&lld, archive, folder).expect("the module can be linked")
}

pub(crate) fn good(module: &str) -> Vec<u8> {
    let image = linked(module, &[]);
    check::illumos_module(&image, check::Against::default())
        .unwrap_or_else(|findings| panic!("{module}: {findings:#?}"));
    image
}

pub(crate) fn boot_illumos(cpus: u32) -> Session {
    let mut session = boot(Arch::X86_64, cpus);
    session.illumos().expect("no module is loaded");
    session
}

/// The lines of `dtrace -l`, without ids.
pub(crate) fn listed(session: &mut Session, spec: &str) -> Vec<String> {
    let probes = session.list(name(spec)).unwrap();
    // The framework's own probes always exist, and belong to no module.
    let probes = probes.iter().filter(|of| !of.module.is_empty());
    let line = |of: &dtrace_consumer::client::Probe| {
        [&*of.provider, &of.module, &of.function, &of.name].join(":")
    };
    probes.map(line).collect()
}

/// The error of the kernel: its number and its text.
pub(crate) fn refused(result: Result<(), SessionError>) -> (i32, String) {
    match result {
        Err(SessionError::Refused(refusal)) => (refusal.errno, refusal.message),
        other => panic!("not refused: {other:?}"),
    }
}

pub(crate) fn execs(count: u32) -> Vec<Exec> {
    (0..count).map(|pid| Exec { pid, path: format!("/bin/prog{pid}") }).collect()
}

#[test]
fn every_exec_is_one_hit_in_c() {
    let mut session = boot_illumos(4);
    session.kldload("proc_example", good("proc_example")).unwrap();
    assert_eq!(listed(&mut session, "proc:::"), ["proc:proc_example:exec_wrapper:exec-success"]);
    every_exec_is_one_hit(&mut session, 1);
}

/// The is-enabled site and the probe site are one probe.
#[test]
fn every_exec_is_one_hit_in_rust() {
    let example = Module { os: Os::Illumos, ..workspace::example(Arch::X86_64) };
    let file = example.build(None).expect("the example can be built");
    let mut session = boot_illumos(4);
    assert_eq!(session.kldload_file(&file).unwrap(), "proc_example");
    let listed = listed(&mut session, "proc:::");
    assert_eq!(listed, ["proc:proc_example:proc_example.on_exec:exec-success"]);
    // A probe can be enabled by its listed name, and by the parts of the name.
    for spec in [&*listed[0], "proc::proc_example.*:", "::*.on_exec:"] {
        assert_eq!(session.list(name(spec)).unwrap().len(), 1, "{spec}");
    }
    every_exec_is_one_hit(&mut session, 2);
}

/// Checks the only loaded module, whose probe has this number of sites.
fn every_exec_is_one_hit(session: &mut Session, sites: usize) {
    let text = session.read_text("proc_example").unwrap();
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
    let patched = session.read_text("proc_example").unwrap();
    let changed = || text.iter().zip(&patched).filter(|(then, now)| then != now);
    assert_eq!(changed().collect::<Vec<_>>(), vec![(&0x90, &0xf0); sites]);
    assert_eq!(refused(session.kldunload("proc_example")), (BUSY, "Device busy".into()));
    session.go(consumer).unwrap();
    let log = log();
    let mut executed = vec![0; 4];
    for batch in log.chunks(100) {
        let per_cpu = session.exec(batch).unwrap();
        executed.iter_mut().zip(per_cpu).for_each(|(sum, more)| *sum += more);
    }
    session.stop(consumer).unwrap();
    let tally = tally(session, consumer);
    assert_eq!(tally.drops, 0);
    assert_eq!(tally.per_cpu(4), executed);
    assert_eq!(executed.iter().sum::<u64>(), log.len() as u64);
    session.close(consumer).unwrap();
    assert_eq!(session.read_text("proc_example").unwrap(), text);
    session.kldunload("proc_example").unwrap();
    assert_eq!(listed(session, "*:::"), [""; 0]);
    session.exec(&execs(8)).expect("the system call is the kernel's own again");
}

#[test]
fn probes_of_all_sorts_are_listed_and_fire() {
    let mut session = boot_illumos(2);
    session.kldload("many", good("many")).unwrap();
    let mut names = listed(&mut session, "many::");
    // The name of a copy of a function depends on the compiler.
    names.iter_mut().for_each(|name| *name = name.replace(".constprop.0", ""));
    assert_eq!(
        names,
        [
            "sdt:many:_init:in-init",
            "sdt:many:twice:foo-bar",
            "sdt:many:arguments:nine-args",
            "sdt:many:arguments:six-args",
            "io:many:arguments:start"
        ]
    );
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, name("many::")).unwrap(), 5);
    session.go(consumer).unwrap();
    session.exec(&execs(100)).unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(&mut session, consumer);
    let probes = session.list(name("many::")).unwrap();
    let of = |name: &str| {
        let id = probes.iter().find(|probe| probe.name == name).expect("it is listed").id;
        let records = tally.records.values().flatten().filter(move |record| record.probe == id);
        records.map(|record| record.args).collect::<Vec<_>>()
    };
    assert_eq!(of("in-init").len(), 0, "_init has run before");
    let both: Vec<_> = of("foo-bar").iter().map(|args| args[0]).collect();
    assert_eq!(both.iter().filter(|&&n| n == 40).count(), 100);
    assert_eq!(both.iter().filter(|&&n| n == 41).count(), 100);
    assert!(of("start").iter().all(|args| args[..2] == [1, 2]));
    for (name, count) in [("six-args", 6), ("nine-args", 9)] {
        // The remaining values are arbitrary data of the stack.
        let passed: Vec<_> = of(name).iter().map(|args| args[..count].to_vec()).collect();
        assert_eq!(passed, vec![(1..=count as u64).collect::<Vec<_>>(); 100], "{name}");
    }
}

#[test]
fn a_provider_of_its_own() {
    let mut session = boot_illumos(4);
    session.kldload("own", good("own")).unwrap();
    let why = |why: &str| format!("WARNING: failed to register provider '{why}");
    let console: Vec<String> = session.wire.console().collect();
    let expected = [
        why("9own': invalid provider name"),
        why("own': invalid provider ops"),
        why("own': invalid provider attributes"),
        why("own': invalid privilege attributes"),
        why("own': need dtps_mode() op for given privilege attributes"),
        why("own': invalid arguments"),
    ];
    assert!(console.ends_with(&expected), "{console:#?}");
    assert_eq!(listed(&mut session, "own:::exec"), ["own:own:exec_64:exec"]);
    let id = session.list(name("own:::")).unwrap()[0].id;
    let types = session.describe(id).unwrap().types;
    assert_eq!(types.iter().map(|of| &*of.native).collect::<Vec<_>>(), ["pid_t"]);
    let consumer = session.open().unwrap();
    session.enable(consumer, name("own:::")).unwrap();
    session.go(consumer).unwrap();
    session.exec(&execs(40)).unwrap();
    assert_eq!(refused(session.kldunload("own")).0, BUSY);
    session.stop(consumer).unwrap();
    let tally = tally(&mut session, consumer);
    let mut pids: Vec<u64> = tally.records.values().flatten().map(|of| of.args[0]).collect();
    pids.sort_unstable();
    assert_eq!(pids, (0..40).collect::<Vec<u64>>());
    session.close(consumer).unwrap();
    session.kldunload("own").unwrap();
}

#[test]
fn a_tail_call_is_refused_by_everybody_here() {
    let image = linked("tail", &["-foptimize-sibling-calls"]);
    let findings = check::illumos_module(&image, check::Against::default()).unwrap_err();
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("__dtrace_probe_at__end: the instruction is `e9`, not a call (e8)"));
    let mut session = boot_illumos(1);
    let (errno, message) = refused(session.kldload("tail", image));
    assert_eq!(errno, INVALID);
    assert!(message.contains("a probe's site is no call but e9"), "{message}");
    session.kldload("tail", good("tail")).expect("without tail calls it is good");
}

#[test]
fn modules_of_the_other_system_are_not_taken() {
    let mut session = boot_illumos(1);
    let (errno, _) = refused(session.kldload("freebsd", crate::bench::module(Arch::X86_64)));
    assert_eq!(errno, INVALID);
    let console: Vec<_> = session.wire.console().collect();
    let warning = "WARNING: mod_load: cannot load module 'freebsd'";
    assert!(console.iter().any(|line| line == warning), "{console:#?}");
}
