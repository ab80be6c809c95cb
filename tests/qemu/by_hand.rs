//! The example's probe, fired by hand: nothing is executed.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Os, Route};
use harness::records::Record;
use harness::session::{Session, SessionError};
use harness::workspace;

use crate::bench::{boot, boot_with_module_by, exec_success, on_every_route, tally};

const NAME: &str = "proc_example.fire";
const KSTAT: &str = "proc_example:0:by_hand";

/// Returns the hits while the probe is enabled.
fn recorded(session: &mut Session, fire: impl FnOnce(&mut Session)) -> Vec<Record> {
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
    session.go(consumer).unwrap();
    fire(session);
    session.stop(consumer).unwrap();
    session.close(consumer).unwrap();
    let records = tally(session, consumer).records.into_values().flatten();
    records.collect()
}

fn errno<T: std::fmt::Debug>(result: Result<T, SessionError>) -> i32 {
    match result {
        Err(SessionError::Refused(refusal)) => refusal.errno,
        other => panic!("not refused: {other:?}"),
    }
}

on_every_route!(a_sysctl_fires_it);

fn a_sysctl_fires_it(arch: Arch, route: Route) {
    let mut session = boot_with_module_by(arch, 2, route);
    let records = recorded(&mut session, |session| {
        for path in ["/bin/one", "/bin/two", ""] {
            session.sysctl(NAME, path).unwrap();
        }
        // It accepts 1023 bytes.
        session.sysctl(NAME, &"p".repeat(1023)).unwrap();
        assert_eq!(errno(session.sysctl(NAME, &"p".repeat(1024))), 22, "EINVAL");
        assert_eq!(errno(session.sysctl("nosuch.one", "")), 2, "ENOENT");
        assert_eq!(errno(session.sysctl("proc_example", "")), 22, "EINVAL: a name of one part");
    });
    assert_eq!(records.len(), 3, "an empty path fires nothing");
    assert!(records.iter().all(|record| record.args[0] != 0));
    // It is removed with the module, and added again.
    session.kldunload(crate::bench::EXAMPLE).unwrap();
    assert_eq!(errno(session.sysctl(NAME, "/bin/one")), 2, "ENOENT");
    session.kldload(crate::bench::EXAMPLE, crate::bench::module_by(arch, route)).unwrap();
    session.sysctl(NAME, "/bin/one").unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_kstat_fires_it() {
    for route in [Route::Native, Route::Provider] {
        let example = Module { os: Os::Illumos, route, ..workspace::example(Arch::X86_64) };
        let companion = example.companion();
        let mut session = boot(Arch::X86_64, 2);
        session.illumos().unwrap();
        let mut loaded = Vec::new();
        for module in std::iter::once(example).chain(companion) {
            let file = module.build(None).expect("it can be built");
            loaded.push(session.kldload_file(&file).unwrap());
        }
        let records = recorded(&mut session, |session| {
            for fired in 1..=3_u64 {
                let data = session.kstat(KSTAT).unwrap();
                assert_eq!(&data[..6], b"fired\0");
                assert_eq!(data[31], 4, "KSTAT_DATA_UINT64");
                assert_eq!(data[32..40], fired.to_le_bytes());
            }
            assert_eq!(errno(session.kstat("proc_example:1:by_hand")), 2, "ENOENT");
        });
        assert_eq!(records.len(), 3, "{route}");
        for name in loaded.iter().rev() {
            session.kldunload(name).unwrap();
        }
        assert_eq!(errno(session.kstat(KSTAT)), 2, "ENOENT");
    }
}
