//! The example module in each of its modes, on the kernels in which arm64 and riscv differ from main: 13.0-CURRENT and
//! 13.0-RELEASE. `stand_in_freebsd::release` lists the differences. All other tests run on main.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Patch, Route};
use harness::session::Session;
use harness::workspace;

use crate::bench::{EXAMPLE, boot, exec_success, log, tally};

const CPUS: u32 = 2;

/// Loads a module, traces all executions of the log, twice, and unloads the module.
fn trace(session: &mut Session, module: &Module, what: &str) {
    let file = module.build(None).unwrap_or_else(|error| panic!("{what}: {error}"));
    session.kldload_file(&file).unwrap_or_else(|error| panic!("{what}: {error}"));
    let text = session.read_text(EXAMPLE).unwrap();
    for _ in 0..2 {
        let consumer = session.open().unwrap();
        let enabled = session.enable(consumer, exec_success());
        assert_eq!(enabled.unwrap_or_else(|error| panic!("{what}: {error}")), 1, "{what}");
        session.go(consumer).unwrap();
        let before = session.counters().unwrap();
        session.exec(&log()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let after = session.counters().unwrap();
        session.stop(consumer).unwrap();
        session.close(consumer).unwrap();
        let tally = tally(session, consumer);
        let hits = log().len() as u64;
        assert_eq!((tally.drops, tally.hits()), (0, hits), "{what}");
        let arguments = tally.records.values().flatten().map(|record| record.args[0]);
        assert!(arguments.into_iter().all(|argument| argument != 0), "{what}");
        let traps = if module.patch == Some(Patch::Trap) { hits } else { 0 };
        assert_eq!(after.breakpoints - before.breakpoints, traps, "{what}");
        assert!(session.read_text(EXAMPLE).unwrap() == text, "{what}: the text is restored");
    }
    session.kldunload(EXAMPLE).unwrap();
}

/// Traces with the example in a mode, on a kernel of this `__FreeBSD_version`.
fn traced(arch: Arch, version: u32, patch: Option<Patch>) {
    let mut session = boot(arch, CPUS);
    session.freebsd(version as i32).unwrap();
    let route = if patch.is_some() { Route::Provider } else { Route::Native };
    let freebsd = version.to_string().parse().expect("a release");
    let module = Module { route, patch, freebsd, ..workspace::example(arch) };
    trace(&mut session, &module, &format!("FreeBSD {version}, {arch}, {patch:?}"));
}

/// Makes a module of tests for each kernel, with a test for each mode.
macro_rules! on_kernels {
    ($arch:ident: $($kernel:ident = $version:literal),* $(,)?) => {
        $(
            mod $kernel {
                use super::super::traced;
                use cargo_sdt::internal::arch::Arch;
                use cargo_sdt::internal::platform::Patch;

                #[test]
                fn native() {
                    traced(Arch::$arch, $version, None);
                }

                #[test]
                fn gate() {
                    traced(Arch::$arch, $version, Some(Patch::Gate));
                }

                #[test]
                fn trap() {
                    traced(Arch::$arch, $version, Some(Patch::Trap));
                }

                #[test]
                fn jump() {
                    traced(Arch::$arch, $version, Some(Patch::Jump));
                }
            }
        )*
    };
}
use on_kernels;

mod aarch64 {
    super::on_kernels!(Aarch64: current_13 = 1_300_010, release_13 = 1_300_139);
}

mod riscv64 {
    super::on_kernels!(Riscv64: current_13 = 1_300_010, release_13 = 1_300_139);
}
