//! The stand-in kernel as illumos's: the example with a provider of its own, which its companion registers.
#![cfg(target_arch = "x86_64")]

use harness::workspace;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Os, Route};
use harness::session::Session;
use sdt_protocol::Request;

use crate::bench::{exec_success, log, probe_id, tally};
use crate::cli::short_log;
use crate::illumos::{BUSY, INVALID, boot_illumos, execs, listed, refused};

const MODULE: &str = "proc_example";
const COMPANION: &str = "proc_example_dtrace";
const PROBE: &str = "proc:proc_example_dtrace:none:exec-success";

/// The module's file and the companion's.
fn files() -> &'static [PathBuf; 2] {
    static FILES: OnceLock<[PathBuf; 2]> = OnceLock::new();
    FILES.get_or_init(|| {
        let (os, route) = (Os::Illumos, Route::Provider);
        let module = Module { os, route, ..workspace::example(Arch::X86_64) };
        let companion = module.companion().expect("a provider of its own is by a companion");
        [module, companion].map(|module| module.build(None).expect("it can be built"))
    })
}

fn load(session: &mut Session) {
    for (file, name) in files().iter().zip([MODULE, COMPANION]) {
        assert_eq!(session.kldload_file(file).unwrap(), name);
    }
}

fn boot_with_both(cpus: u32) -> Session {
    let mut session = boot_illumos(cpus);
    load(&mut session);
    session
}

fn busy(session: &mut Session, module: &str) {
    assert_eq!(refused(session.kldunload(module)), (BUSY, "Device busy".into()), "{module}");
}

#[test]
fn the_companion_needs_the_module_and_the_module_nobody() {
    let mut session = boot_illumos(2);
    let missing = "undefined symbol 'sdt_driver_proc_example'";
    let [module, companion] = files();
    let refusal = refused(session.kldload_file(companion).map(drop));
    assert_eq!(refusal, (INVALID, missing.into()));
    let console: Vec<_> = session.wire.console().collect();
    let expected = [
        &format!("/kernel/misc/amd64/{COMPANION}: {missing}"),
        "WARNING: mod_load: cannot load module 'proc_example_dtrace'",
        "WARNING: proc_example_dtrace: unable to resolve dependency, module 'misc/proc_example' not found",
        "error loading 'misc/proc_example_dtrace', error 22",
    ];
    assert!(console.ends_with(&expected.map(String::from)), "{console:#?}");

    session.kldload_file(module).unwrap();
    assert_eq!(listed(&mut session, "*:::"), [""; 0], "without a companion there are no probes");
    session.exec(&execs(8)).expect("and a site is a nop");
    session.kldload_file(companion).unwrap();
    assert_eq!(listed(&mut session, "*:::"), [PROBE]);
}

/// A declaration without stability and privileges has the attributes of FreeBSD's SDT.
#[test]
fn its_argument_has_a_type_and_its_probe_a_stability() {
    let mut session = boot_with_both(1);
    let id = probe_id(&mut session);
    let detail = session.describe(id).unwrap();
    assert_eq!((detail.probe, detail.args), ([1, 1, 0], [1, 1, 4]));
    let types: Vec<_> = detail.types.iter().map(|of| (&*of.native, &of.translated)).collect();
    assert_eq!(types, [("char *", &None)]);
}

#[test]
fn every_exec_is_one_hit_and_disabling_restores_every_byte() {
    const CPUS: u32 = 4;
    let mut session = boot_with_both(CPUS);
    let id = probe_id(&mut session);
    let text = session.read_text(MODULE).unwrap();
    let companion = session.read_text(COMPANION).unwrap();
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
    assert_jumps(&text, &session.read_text(MODULE).unwrap());
    session.go(consumer).unwrap();
    let before = session.counters().unwrap();
    let mut executed = vec![0; CPUS as usize];
    let log = log();
    for batch in log.chunks(100) {
        let per_cpu = session.exec(batch).unwrap();
        executed.iter_mut().zip(per_cpu).for_each(|(sum, more)| *sum += more);
    }
    session.stop(consumer).unwrap();
    let after = session.counters().unwrap();
    let tally = tally(&mut session, consumer);
    assert_eq!(tally.drops, 0);
    assert_eq!(tally.per_cpu(CPUS), executed);
    assert_eq!(executed.iter().sum::<u64>(), log.len() as u64);
    assert!(tally.records.values().flatten().all(|hit| hit.probe == id && hit.args[0] != 0));
    assert_eq!(after.breakpoints, before.breakpoints, "a site jumps");
    assert!(after.ticks > before.ticks, "interrupts were on");

    session.close(consumer).unwrap();
    assert!(session.read_text(MODULE).unwrap() == text, "disabling restores every byte");
    assert!(session.read_text(COMPANION).unwrap() == companion, "the companion has no sites");
    session.exec(&log[..50]).unwrap();
    assert_eq!(session.counters().unwrap().hits, after.hits);
}

/// The only changes in a text are nops that have become jumps into the same text.
fn assert_jumps(text: &[u8], patched: &[u8]) {
    let encoding = Arch::X86_64.encoding();
    let nop = encoding.nop.as_bytes();
    let (mut at, mut sites) = (0, 0);
    while at < text.len() {
        if patched[at] == text[at] {
            at += 1;
            continue;
        }
        let now = &patched[at..at + nop.len()];
        assert_eq!(text[at..at + nop.len()], *nop, "at {at:#x}");
        let to =
            |&target: &usize| (encoding.jump)(at, target).is_ok_and(|jump| jump.as_bytes() == now);
        assert!((0..text.len()).any(|target| to(&target)), "{now:02x?} at {at:#x}");
        (at, sites) = (at + nop.len(), sites + 1);
    }
    assert!(sites > 0, "enabling patches the text");
}

#[test]
fn nothing_goes_that_somebody_needs() {
    let mut session = boot_with_both(2);
    busy(&mut session, MODULE);
    // DTrace unregisters no provider while a consumer has DTrace open, whatever it traces.
    let consumer = session.open().unwrap();
    busy(&mut session, COMPANION);
    busy(&mut session, MODULE);
    session.enable(consumer, exec_success()).unwrap();
    session.go(consumer).unwrap();
    busy(&mut session, COMPANION);
    session.exec(&execs(40)).unwrap();
    session.stop(consumer).unwrap();
    assert_eq!(tally(&mut session, consumer).hits(), 40, "after a refusal everything goes on");
    session.close(consumer).unwrap();
    session.kldunload(COMPANION).unwrap();
    assert_eq!(listed(&mut session, "*:::"), [""; 0]);
    session.exec(&execs(8)).expect("a site is a nop again");
    session.kldunload(MODULE).unwrap();
    session.exec(&execs(8)).expect("the system call is the kernel's own again");
    assert!(session.kldstat().unwrap().is_empty());
}

/// Returns the number of hits, without hits that were under way when their probe was disabled.
fn claimed(session: &mut Session) -> u64 {
    let counters = session.counters().unwrap();
    counters.hits - counters.unclaimed
}

/// Sites are restored while other CPUs execute them.
#[test]
fn they_come_and_go_under_load() {
    const EXECS: u32 = 2000;
    const LIMIT: Duration = Duration::from_secs(60);
    let mut session = boot_illumos(4);
    let mut under_load = 0;
    for round in 0..20 {
        load(&mut session);
        let text = session.read_text(MODULE).unwrap();
        let consumer = session.open().unwrap();
        assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1, "{round}");
        session.go(consumer).unwrap();
        let before = claimed(&mut session);
        session.wire.send(Request::Exec { execs: execs(EXECS) }, LIMIT).unwrap();
        session.close(consumer).unwrap();
        let hits = claimed(&mut session) - before;
        // Each CPU executes its queue in order: when these four images are executed, so are all of the load.
        session.exec(&execs(4)).unwrap();
        let after = claimed(&mut session) - before;
        assert_eq!(after, hits, "{round}: a hit of a disabled probe");
        under_load += u32::from(hits < EXECS.into());
        assert!(session.read_text(MODULE).unwrap() == text, "{round}");
        session.kldunload(COMPANION).unwrap();
        session.kldunload(MODULE).unwrap();
    }
    assert!(under_load > 0, "the load was over each time before the probe was disabled");
}

/// One command, as a user runs it, builds and loads both modules.
#[test]
fn one_command_traces_it() {
    let (_folder, log) = short_log(40);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["dtrace", "--os", "illumos", "--route", "provider"]).args(arguments);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        let lines = err.lines().filter(|line| !line.starts_with("xtask: "));
        let err: String = lines.map(|line| format!("{line}\n")).collect();
        assert_eq!(output.status.code(), Some(0), "{err}");
        (out, err)
    };
    let (out, err) = run(&["-n", "proc:::exec-success", "--workload", log.to_str().unwrap()]);
    assert_eq!(err, "dtrace: description 'proc:::exec-success' matched 1 probe\n");
    let hits = out.lines().filter(|line| line.ends_with("  none:exec-success "));
    assert_eq!(hits.count(), 40, "{out}");
    let (out, err) = run(&["-l", "-P", "proc"]);
    assert_eq!(err, "");
    let row = " proc proc_example_dtrace                              none exec-success\n";
    assert!(out.ends_with(row) && out.lines().count() == 2, "{out}");
}
