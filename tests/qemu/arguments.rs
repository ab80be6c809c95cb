//! Arguments, several sites of one probe, the is-enabled test, open providers: the module in
//! `tests/modules/kmod-test`, which fires six arguments that depend on each other on every exec.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::dlib;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{FreeBsd, Os, Route};
use dtrace_consumer::Trace;
use dtrace_consumer::compiler::{Source, options::Options};
use dtrace_consumer::render::{Datum, Firing, RenderError, Sink, View};
use harness::records::Record;
use harness::session::Session;
use harness::workspace;
use sdt_core::ops::{Class, Stability};
use sdt_protocol::Exec;

use crate::bench::{
    EXAMPLE, PerArch, Tally, boot, build_module, exec_success, module, name, on_every_architecture,
    tally,
};

const FILE: &str = "sdt_test.ko";

static TEST_MODULES: PerArch = PerArch::new();

pub(crate) fn execs(count: u32) -> Vec<Exec> {
    (0..count).map(|pid| Exec { pid, path: format!("/bin/prog{pid}") }).collect()
}

fn boot_with_test_module(arch: Arch) -> Session {
    let mut session = boot(arch, 2);
    let file = TEST_MODULES.get(arch, |arch| build_module("kmod-test", arch, Route::default()));
    assert_eq!(session.kldload_file(file).unwrap(), FILE);
    session
}

/// Enables the probes that match the description, executes images, and returns the records.
fn trace(session: &mut Session, spec: &str, count: u32) -> Tally {
    let consumer = session.open().unwrap();
    assert!(session.enable(consumer, name(spec)).unwrap() > 0, "{spec} matches nothing");
    session.go(consumer).unwrap();
    session.exec(&execs(count)).unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(session, consumer);
    session.close(consumer).unwrap();
    assert_eq!(tally.drops, 0);
    tally
}

fn all(tally: &Tally) -> impl Iterator<Item = &Record> {
    tally.records.values().flatten()
}

on_every_architecture!(
    six_arguments_arrive,
    types_are_described,
    a_provider_of_its_own_says_its_stability,
    a_module_s_structs_are_described,
    what_a_module_declares_reaches_d,
    every_site_of_a_probe_fires,
    the_enabled_test_is_a_site_of_its_own,
    all_probes_of_two_modules_at_once,
    what_is_lost_is_counted,
);

fn six_arguments_arrive(arch: Arch) {
    let mut session = boot_with_test_module(arch);
    for probe in ["sdt_test:::six", "sdt_test:::six-costly"] {
        let tally = trace(&mut session, probe, 500);
        assert_eq!(tally.hits(), 500, "{probe}");
        let mut seen: Vec<u64> = all(&tally).map(|record| record.args[0]).collect();
        for record in all(&tally) {
            let [n, minus_n, odd, three_n, path, n_plus_6, none @ ..] = record.args;
            assert_eq!(minus_n, n.wrapping_neg(), "{probe}: {record:?}");
            assert_eq!((odd, three_n, n_plus_6), (n & 1, 3 * n, n + 6), "{probe}: {record:?}");
            assert_eq!(none, [0; 4], "{probe}: {record:?}");
            // Kernel memory.
            assert!(path.cast_signed() < 0, "{probe}: {record:?}");
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 500, "{probe}: every exec has a number of its own");
    }
}

/// The number of arguments that the release carries, which the declarations follow.
#[test]
fn every_release_gets_the_arguments_that_it_carries() {
    for major in 10..=15 {
        let freebsd = FreeBsd::major_release(major).unwrap();
        let package = "kmod-test".into();
        let module = Module { package, freebsd, ..workspace::example(Arch::X86_64) };
        let file = module.build(None).unwrap_or_else(|error| panic!("{freebsd}: {error}"));
        let mut session = boot(Arch::X86_64, 1);
        session.freebsd(freebsd.kernel_version() as i32).unwrap();
        session.kldload_file(&file).unwrap();
        let carries_six = major >= 15;
        let costly = session.list(name("sdt_test:::six-costly")).unwrap();
        assert_eq!(costly.len(), usize::from(carries_six), "{freebsd}");
        let six = session.list(name("sdt_test:::six")).unwrap()[0].id;
        let types = session.describe(six).unwrap().types;
        assert_eq!(types.len(), if carries_six { 6 } else { 5 }, "{freebsd}: {types:?}");
        if major == 10 {
            // The stand-in kernel uses the layout of later releases for an exec's data.
            continue;
        }
        for record in all(&trace(&mut session, "sdt_test:::six", 50)) {
            let [n, minus_n, odd, three_n, _, n_plus_6, ..] = record.args;
            assert_eq!((minus_n, odd, three_n), (n.wrapping_neg(), n & 1, 3 * n), "{freebsd}");
            if carries_six {
                assert_eq!(n_plus_6, n + 6, "{freebsd}");
            }
        }
    }
}

fn types_are_described(arch: Arch) {
    let mut session = boot_with_test_module(arch);
    let types = |session: &mut Session, spec| {
        let probes = session.list(name(spec)).unwrap();
        assert_eq!(probes.len(), 1, "{spec}: {probes:?}");
        let detail = session.describe(probes[0].id).unwrap();
        detail.types.into_iter().map(|of| of.native).collect::<Vec<_>>()
    };
    assert_eq!(types(&mut session, "sdt_test:::none"), [""; 0]);
    assert_eq!(
        types(&mut session, "sdt_test:::six"),
        ["uint32_t", "int64_t", "_Bool", "uint64_t", "char *", "uint16_t"]
    );
    assert_eq!(types(&mut session, "sdt_open:::untyped"), ["uint64_t", "char *"]);
    assert_eq!(types(&mut session, "sdt_test:::looked-into"), ["struct test_exec *"]);
    let probes = session.list(name("sdt_test:::translated")).unwrap();
    let detail = session.describe(probes[0].id).unwrap();
    assert_eq!(detail.types[0].native, "struct test_exec *");
    assert_eq!(detail.types[0].translated.as_deref(), Some("sdt_test_info_t *"));
}

/// The stability that the attributes in `tests/modules/kmod-test` declare; with the kernel's own sdt, that of all its
/// providers.
fn a_provider_of_its_own_says_its_stability(arch: Arch) {
    let by = |route| {
        let mut session = boot(arch, 1);
        session.kldload_file(&build_module("kmod-test", arch, route)).unwrap();
        let probes = session.list(name("sdt_test:::none")).unwrap();
        let detail = session.describe(probes[0].id).unwrap();
        (detail.probe, detail.args)
    };
    use Class::{Group, Isa, Unknown};
    use Stability::{External, Obsolete, Private, Stable, Unstable};
    let triple =
        |name: Stability, data: Stability, class: Class| [name as u8, data as u8, class as u8];
    // For each part, the weakest value in the description.
    let own = (triple(Stable, Unstable, Isa), triple(External, Obsolete, Group));
    assert_eq!(by(Route::Provider), own);
    let sdt = (triple(Private, Private, Unknown), triple(Private, Private, Isa));
    assert_eq!(by(Route::Native), sdt);
}

/// The file that the kernel loads describes the module's structs, on both routes.
fn a_module_s_structs_are_described(arch: Arch) {
    for route in [Route::Native, Route::Provider] {
        let file = std::fs::read(build_module("kmod-test", arch, route)).unwrap();
        let description = dlib::read(&file).unwrap();
        assert_eq!(description.providers, ["sdt_open", "sdt_test"]);
        let library = dlib::render(&description, FILE, Os::FreeBsd).unwrap();
        let declared = "\tuint8_t odd;\n\tuint8_t __pad0[3];\n\tuint32_t n;\n\tstruct test_number multiples[3];\n";
        assert!(library.contains(declared), "{library}");
    }
}

/// Keeps what programs record as plain values.
#[derive(Default)]
struct Values(Vec<Vec<u8>>);

impl Sink for Values {
    fn datum(
        &mut self,
        _: &Firing<'_>,
        datum: &Datum<'_>,
        _: &View<'_>,
    ) -> Result<(), RenderError> {
        if let Datum::Value(value) = datum {
            self.0.push(value.data.to_vec());
        }
        Ok(())
    }
}

/// No library is made from the file: the kernel has kept its declarations.
fn what_a_module_declares_reaches_d(arch: Arch) {
    let mut session = boot_with_test_module(arch);
    let mut trace = Trace::new(session.connect().unwrap(), Options::default(), 0);
    let text = b"sdt_test:::looked-into {
        trace((uint64_t)&args[0]->multiples[1].number - (uint64_t)args[0]);
        trace(sizeof (struct test_number));
        trace(curpsinfo->pr_psargs);
    }";
    let program = trace.compile(Source::file(text)).unwrap();
    assert_eq!(trace.enable(&program).unwrap(), 1);
    let mut running = trace.go().unwrap();
    session.exec(&execs(8)).unwrap();
    let mut values = Values::default();
    running.stop().unwrap();
    while !running.work(&mut values).unwrap() {}
    assert_eq!(values.0.len(), 3 * 8);
    for record in values.0.chunks(3) {
        let [offset, size, path] = record else { panic!("{record:?}") };
        // `odd` and `n`, then elements of 24 bytes. In each element the number follows a byte and a gap.
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!((number(offset), number(size)), (8 + 24 + 8, 24));
        let end = path.iter().position(|&byte| byte == 0).unwrap();
        assert!(path[..end].starts_with(b"/bin/prog"), "{path:?}");
    }
    running.finish(&mut values).unwrap();
    session.kldunload(FILE).unwrap();
}

fn every_site_of_a_probe_fires(arch: Arch) {
    let mut session = boot_with_test_module(arch);
    // The kernel leaves a site that was enabled with other nops than it had.
    trace(&mut session, "sdt_test:::many-sites", 1);
    let original = session.read_text(FILE).unwrap();
    let tally = trace(&mut session, "sdt_test:::many-sites", 100);
    for site in 1..=3 {
        let hits = all(&tally).filter(|record| record.args[0] == site).count();
        assert_eq!(hits, 100, "site {site}");
    }
    assert_eq!(tally.hits(), 300);
    assert!(session.read_text(FILE).unwrap() == original);
}

fn the_enabled_test_is_a_site_of_its_own(arch: Arch) {
    let mut session = boot_with_test_module(arch);
    let tally = trace(&mut session, "sdt_test:::asked_first", 100);
    assert_eq!(tally.hits(), 100);
    let lengths: Vec<u64> = execs(100).iter().map(|exec| exec.path.len() as u64).collect();
    let mut found: Vec<u64> = all(&tally).map(|record| record.args[0]).collect();
    found.sort_unstable();
    assert_eq!(found, lengths);
}

/// The probes of any module, except those of the framework itself.
const EVERY: &str = "*[ctn]:::";

fn all_probes_of_two_modules_at_once(arch: Arch) {
    let mut session = boot_with_test_module(arch);
    session.kldload(EXAMPLE, module(arch)).unwrap();
    // none, six, six-costly, many-sites three times, asked_first, untyped, looked-into, translated; exec-success.
    let tally = trace(&mut session, EVERY, 50);
    assert_eq!(tally.hits(), 50 * 11);
    assert_eq!(session.list(exec_success()).unwrap().len(), 1);
    session.kldunload(FILE).unwrap();
    assert_eq!(session.list(name("sdt_test:::")).unwrap(), []);
    assert_eq!(trace(&mut session, EVERY, 50).hits(), 50);
}

fn what_is_lost_is_counted(arch: Arch) {
    const COUNT: u32 = 20_000;
    let mut session = boot_with_test_module(arch);
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, name("sdt_test:::many-sites")).unwrap(), 1);
    session.go(consumer).unwrap();
    session.exec_at_once(&execs(COUNT)).unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(&mut session, consumer);
    assert!(tally.drops > 0, "the consumer reads nothing meanwhile");
    assert_eq!(tally.hits() + tally.drops, u64::from(COUNT) * 3);
}
