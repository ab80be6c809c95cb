//! The example module by the native route: the kernel's own SDT finds, patches and fires its probe, as each release does. For
//! FreeBSD 14, the test also compares it with the same module in C; `beside_c` does so for 15.

use std::path::{Path, PathBuf};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{FreeBsd, Route};
use dtrace_consumer::compiler::Specifies;
use dtrace_consumer::job::{Mode, Text};
use dtrace_consumer::render::Kept;
use dtrace_consumer::{Interrupt, Job};
use dtrace_protocol::SiteState;
use harness::session::{Session, SessionError};
use harness::workspace;
use harness::zig::Zig;
use xtask::bench::Bench;
use xtask::cmd;
use xtask::cmd::dtrace::{Kernel, Play};

use crate::bench::{EXAMPLE, boot, exec_success, log, on_every_architecture, probe_id, tally};
use crate::golden::without_names;

on_every_architecture!(
    c_and_rust_of_14_are_listed_and_traced_alike,
    the_kernel_patches_the_sites,
    before_15_sites_ask,
    unloading_is_refused_as_dtrace_and_sdt_do,
    the_release_has_to_be_the_modules,
);

/// `EBUSY`.
const BUSY: i32 = 16;
/// `ENOEXEC`.
const NOEXEC: i32 = 8;

const LISTED: &str = "   \
   ID   PROVIDER            MODULE                          FUNCTION NAME
   17       proc      proc_example                              none exec-success

\tProbe Description Attributes
\t\tIdentifier Names: Private
\t\tData Semantics:   Private
\t\tDependency Class: Unknown

\tArgument Attributes
\t\tIdentifier Names: Private
\t\tData Semantics:   Private
\t\tDependency Class: ISA

\tArgument Types
\t\targs[0]: char *

";
const HEADING: &str = "CPU     ID                    FUNCTION:NAME\n";
const HIT: &str = "  0     17                none:exec-success \n";

fn release(text: &str) -> FreeBsd {
    text.parse().expect("a release")
}

/// The example in Rust.
fn rust(arch: Arch, freebsd: &str) -> PathBuf {
    let module =
        Module { route: Route::Native, freebsd: release(freebsd), ..workspace::example(arch) };
    module.build(None).unwrap_or_else(|error| panic!("{arch}, FreeBSD {freebsd}: {error}"))
}

/// The example in C; `None` if the compiler cannot be fetched.
fn c_of_14(arch: Arch) -> Option<PathBuf> {
    let zig = Zig::for_tests(14).unwrap_or_else(|error| panic!("{error}"))?;
    let source = workspace::root().join("tests/conformance/c/proc_example.c");
    Some(zig.module(arch, &source).unwrap_or_else(|error| panic!("{arch}: {error}")))
}

/// The output of dtrace in FreeBSD 14.
fn dtrace(arch: Arch, module: &Path, list: bool) -> String {
    let bench = Bench {
        arch,
        cpus: 1,
        os: Default::default(),
        freebsd: Some(release("14")),
        route: Route::Native,
        patch: None,
        module: vec![module.into()],
    };
    let programs = vec![Text::Line("proc:::exec-success".into(), Specifies::Name)];
    let mode = if list { Mode::List } else { Mode::Trace };
    let job = Job { mode, verbose: list, programs, ..Job::default() };
    let mut output = Kept::default();
    let interrupt = Interrupt::new();
    let kernel = Kernel::Boot { bench: &bench, console: false };
    cmd::dtrace::trace(kernel, &job, Play::Log(None), &interrupt, &mut output).unwrap();
    String::from_utf8(output.out).unwrap()
}

fn c_and_rust_of_14_are_listed_and_traced_alike(arch: Arch) {
    let Some(c) = c_of_14(arch) else { return };
    let traced = [HEADING, &HIT.repeat(log().len()), "\n"].concat();
    for module in [rust(arch, "14"), c] {
        assert_eq!(without_names(&dtrace(arch, &module, true)), LISTED, "{}", module.display());
        let output = dtrace(arch, &module, false);
        assert!(output == traced, "{}: {output}", module.display());
    }
}

/// A kernel of a release with the example loaded.
fn boot_release(arch: Arch, cpus: u32, freebsd: &str) -> Session {
    let mut session = boot(arch, cpus);
    session.freebsd(release(freebsd).kernel_version() as i32).unwrap();
    session.kldload_file(&rust(arch, freebsd)).unwrap();
    session
}

/// Traces all executions of the log; no breakpoint is taken.
fn trace(session: &mut Session, cpus: u32, consumer: u32) {
    session.go(consumer).unwrap();
    let before = session.counters().unwrap();
    let mut executed = vec![0; cpus as usize];
    for batch in log().chunks(100) {
        let per_cpu = session.exec(batch).unwrap();
        executed.iter_mut().zip(per_cpu).for_each(|(sum, more)| *sum += more);
    }
    let after = session.counters().unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(session, consumer);
    assert_eq!((tally.drops, tally.per_cpu(cpus)), (0, executed));
    assert!(tally.records.values().flatten().all(|record| record.args[0] != 0));
    assert_eq!(after.hits - before.hits, log().len() as u64);
    assert_eq!(after.breakpoints, before.breakpoints);
}

fn the_kernel_patches_the_sites(arch: Arch) {
    const CPUS: u32 = 4;
    let mut session = boot_release(arch, CPUS, "15");
    let id = probe_id(&mut session);
    let original = session.read_text(EXAMPLE).unwrap();
    let base = session.kldstat().unwrap()[0].address;
    let state = |session: &mut Session| {
        let sites = session.sites(id).unwrap();
        let [site] = &sites[..] else { panic!("one site: {sites:?}") };
        assert!(site.in_reach && site.address >= base && site.target >= base, "{site:?}");
        (site.state, (site.address as usize, site.target as usize))
    };
    let (nop, (address, target)) = state(&mut session);
    assert_eq!(nop, SiteState::Nop);
    let encoding = arch.encoding();
    let mut disabled = None;
    for _ in 0..3 {
        let consumer = session.open().unwrap();
        assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
        assert_eq!(state(&mut session).0, SiteState::Jump);
        let jump = (encoding.jump)(address, target).unwrap();
        let enabled = session.read_text(EXAMPLE).unwrap();
        let before = disabled.as_ref().unwrap_or(&original);
        let at = (0..enabled.len()).find(|&at| enabled[at] != before[at]).unwrap();
        assert_eq!(enabled[at..][..jump.as_bytes().len()], *jump.as_bytes());
        let mut expected = before.clone();
        expected[at..][..jump.as_bytes().len()].copy_from_slice(jump.as_bytes());
        assert!(enabled == expected, "nothing else has changed");
        trace(&mut session, CPUS, consumer);

        session.close(consumer).unwrap();
        assert_eq!(state(&mut session).0, SiteState::Nop);
        // On amd64 the kernel replaces one nop by five nops.
        if arch == Arch::X86_64 {
            expected[at..][..5].fill(0x90);
        } else {
            expected.clone_from(&original);
        }
        let text = session.read_text(EXAMPLE).unwrap();
        assert!(text == expected);
        disabled = Some(text);
        // A disabled site counts no hits.
        let before = session.counters().unwrap();
        session.exec(&log()[..50]).unwrap();
        assert_eq!(session.counters().unwrap().hits, before.hits);
    }
    session.kldunload(EXAMPLE).unwrap();
    session.exec(&log()[..50]).unwrap();
}

fn before_15_sites_ask(arch: Arch) {
    const CPUS: u32 = 4;
    let mut session = boot_release(arch, CPUS, "14");
    let id = probe_id(&mut session);
    assert_eq!(session.sites(id).unwrap(), []);
    let text = session.read_text(EXAMPLE).unwrap();
    for _ in 0..2 {
        let consumer = session.open().unwrap();
        session.enable(consumer, exec_success()).unwrap();
        trace(&mut session, CPUS, consumer);
        assert!(session.read_text(EXAMPLE).unwrap() == text);
        session.close(consumer).unwrap();
        let before = session.counters().unwrap();
        session.exec(&log()[..50]).unwrap();
        assert_eq!(session.counters().unwrap().hits, before.hits);
    }
    session.kldunload(EXAMPLE).unwrap();
}

fn refused(result: Result<impl std::fmt::Debug, SessionError>) -> (i32, String) {
    match result {
        Err(SessionError::Refused(refusal)) => (refusal.errno, refusal.message),
        other => panic!("not refused: {other:?}"),
    }
}

fn unloading_is_refused_as_dtrace_and_sdt_do(arch: Arch) {
    for freebsd in ["14", "15"] {
        let mut session = boot_release(arch, 2, freebsd);
        let consumer = session.open().unwrap();
        session.enable(consumer, exec_success()).unwrap();
        let busy = (BUSY, "can't unload file: Device busy".to_owned());
        assert_eq!(refused(session.kldunload(EXAMPLE)), busy);
        let console: Vec<_> = session.wire.console().collect();
        let said = "kldunload: attempt to unload module that has DTrace probes enabled";
        assert_eq!(console.last().map(String::as_str), Some(said), "{console:?}");
        // Everything still works.
        trace(&mut session, 2, consumer);

        // No probe is enabled, but a consumer is open: the provider remains registered, but its probes are destroyed.
        session.close(consumer).unwrap();
        let consumer = session.open().unwrap();
        assert_eq!(refused(session.kldunload(EXAMPLE)), busy);
        assert_eq!(session.list(exec_success()).unwrap(), []);
        session.exec(&log()[..50]).unwrap();
        session.close(consumer).unwrap();
        assert_eq!(session.list(exec_success()).unwrap(), []);
        session.kldunload(EXAMPLE).unwrap();

        let module = rust(arch, freebsd);
        for _ in 0..20 {
            session.kldload_file(&module).unwrap();
            let consumer = session.open().unwrap();
            assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
            session.go(consumer).unwrap();
            session.exec(&log()[..5]).unwrap();
            session.stop(consumer).unwrap();
            assert_eq!(tally(&mut session, consumer).hits(), 5);
            session.close(consumer).unwrap();
            session.kldunload(EXAMPLE).unwrap();
        }
    }
}

fn the_release_has_to_be_the_modules(arch: Arch) {
    let mut session = boot(arch, 2);
    for (running, built) in [(1_404_000, "15"), (1_500_068, "14")] {
        session.freebsd(running).unwrap();
        let (errno, message) = refused(session.kldload_file(&rust(arch, built)));
        assert_eq!(errno, NOEXEC);
        assert_eq!(message, "depends on kernel - not available or version mismatch");
        let said = format!("KLD {EXAMPLE}: {message}");
        assert_eq!(session.wire.console().last().as_deref(), Some(&*said));
    }
    assert!(session.kldstat().unwrap().is_empty());
    // Unknown releases, and another release while files are loaded.
    assert_eq!(refused(session.freebsd(900_000)).0, 22);
    session.kldload_file(&rust(arch, "15")).unwrap();
    assert_eq!(refused(session.freebsd(1_404_000)).0, BUSY);
}
