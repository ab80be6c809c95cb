//! Probes that a module makes at run time, registered with the kernel's DTrace. The test module makes and fires them; the paths
//! of executed images select its steps.

use std::path::PathBuf;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Os, Route};
use harness::session::{Session, SessionError};
use harness::workspace;
use sdt_protocol::Exec;

use crate::bench::{boot, name, on_every_architecture, tally};
use crate::illumos::boot_illumos;

/// `EBUSY`.
const BUSY: i32 = 16;
const TWICE: i32 = 1002;
const ENABLED: i32 = 1003;
const REMOVED: i32 = 1004;
const FIRED_AFTER_REMOVAL: i32 = 1005;

fn files(arch: Arch, os: Os) -> Vec<PathBuf> {
    let module = Module {
        package: "kmod-test".into(),
        os,
        route: Route::Provider,
        features: vec!["script".into()],
        ..workspace::example(arch)
    };
    // In a separate folder, because the module has the same file name as that of the other tests.
    let folder = workspace::build_dir().join(format!("kmod/{arch}/{}-script", os.name()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, companion) = match os {
        Os::FreeBsd => ("sdt_test.ko", None),
        Os::Illumos => ("sdt_test", module.companion()),
    };
    let mut files = vec![module.build(Some(&folder.join(file))).expect("it can be built")];
    files.extend(companion.map(|of| of.build(Some(&folder.join("sdt_test_dtrace"))).unwrap()));
    files
}

/// A kernel with the module, and a consumer that receives the result of each step.
struct Script {
    session: Session,
    steps: u32,
}

impl Script {
    fn new(mut session: Session, files: &[PathBuf]) -> Self {
        for file in files {
            session.kldload_file(file).unwrap();
        }
        let steps = session.open().unwrap();
        assert_eq!(session.enable(steps, name("script_steps:::done")).unwrap(), 1);
        session.go(steps).unwrap();
        Self { session, steps }
    }

    /// Executes a path, and returns the result of the step.
    fn step(&mut self, path: &str) -> i32 {
        self.session.exec(&[Exec { pid: 1, path: path.into() }]).unwrap();
        let tally = tally(&mut self.session, self.steps);
        let records: Vec<_> = tally.records.values().flatten().collect();
        let [record] = records[..] else { panic!("{path}: {records:?}") };
        assert_eq!(record.args[0], path.len() as u64);
        record.args[1] as i32
    }

    fn listed(&mut self) -> Vec<String> {
        let probes = self.session.list(name("script:::")).unwrap();
        probes.iter().map(|of| format!("{}:{}:{}", of.module, of.function, of.name)).collect()
    }
}

fn refused(result: Result<(), SessionError>) {
    let Err(SessionError::Refused(refusal)) = result else { panic!("{result:?}") };
    assert_eq!(refusal.errno, BUSY);
}

/// Tests a provider that is made at run time from its creation to its end. `module` is the module part of its probes'
/// descriptions. The module is unloaded at the end.
fn lives(mut script: Script, module: &str, file: &str) {
    let probe = format!("{module}:main:step");
    assert_eq!(script.listed(), [""; 0]);
    assert_eq!((script.step("/script/open"), script.step("/script/add")), (0, 0));
    assert_eq!(script.listed(), [&*probe]);
    assert_eq!(script.step("/script/add"), TWICE);
    let id = script.session.list(name("script:::step")).unwrap()[0].id;
    let types = script.session.describe(id).unwrap().types;
    let types: Vec<_> = types.iter().map(|of| &*of.native).collect();
    let bytes = ["uint8_t"; 3];
    assert_eq!(types[..2], ["uint64_t", "char *"]);
    assert_eq!((&types[2..5], &types[5..7]), (&bytes[..], &["int64_t", "uint16_t"][..]));
    assert_eq!((&types[7..9], &types[9..]), (&bytes[..2], &["uint64_t"][..]));

    let consumer = script.session.open().unwrap();
    assert_eq!(script.session.enable(consumer, name("script:::step")).unwrap(), 1);
    script.session.go(consumer).unwrap();
    for _ in 0..20 {
        assert_eq!(script.step("/bin/ls"), 0);
    }
    // The provider cannot be removed while its probe is enabled, and the probe continues to fire.
    assert_eq!(script.step("/script/remove"), ENABLED);
    assert_eq!(script.step("/script/close"), BUSY);
    refused(script.session.kldunload(file));
    assert_eq!(script.listed(), [&*probe]);
    assert_eq!(script.step("/bin/ls"), 0);
    let hits = tally(&mut script.session, consumer);
    assert_eq!((hits.hits(), hits.drops), (21, 0));
    for hit in hits.records.values().flatten() {
        let n = hit.args[0];
        // An address of the kernel's.
        assert!(hit.args[1].cast_signed() < 0, "{hit:?}");
        assert_eq!(hit.args[2..], [3, 4, 5, n.wrapping_neg(), 7, 8, 9, n + 10], "{hit:?}");
    }
    script.session.close(consumer).unwrap();

    // A provider without enabled probes can be removed, although a consumer has DTrace open.
    assert_eq!(script.step("/script/remove"), 0);
    assert_eq!(script.step("/script/remove"), REMOVED);
    assert_eq!(script.step("/bin/ls"), FIRED_AFTER_REMOVAL);
    assert_eq!(script.listed(), [""; 0]);
    assert_eq!(script.step("/script/add"), 0);
    assert_eq!(script.listed(), [&*probe]);

    // Unloading the module removes all its providers and probes.
    script.session.close(script.steps).unwrap();
    script.session.kldunload(file).unwrap();
    assert_eq!(script.listed(), [""; 0]);
}

fn on_freebsd(arch: Arch) {
    lives(Script::new(boot(arch, 2), &files(arch, Os::FreeBsd)), "sdt_test", "sdt_test.ko");
}

on_every_architecture!(on_freebsd);

#[test]
#[cfg(target_arch = "x86_64")]
fn on_illumos() {
    let script = Script::new(boot_illumos(2), &files(Arch::X86_64, Os::Illumos));
    lives(script, "sdt_test_dtrace", "sdt_test_dtrace");
}
