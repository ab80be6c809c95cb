//! The common parts of all tests: the kernel, the module, the log, and counting.

use harness::kernel;
use harness::qemu;
use harness::workspace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::Route;
use harness::machine::Options;
use harness::records::Record;
use harness::session::Session;
use harness::workload;
use harness::workspace::default_workload;
use sdt_protocol::Exec;

/// The example module's file name.
pub(crate) const EXAMPLE: &str = "proc_example.ko";

/// Makes a test for each architecture of functions that take one. This macro is the list of all tested architectures.
macro_rules! on_every_architecture {
    ($($test:ident),* $(,)?) => {
        mod x86_64 {
            $(#[test] fn $test() { super::$test(cargo_sdt::internal::arch::Arch::X86_64); })*
        }
        mod aarch64 {
            $(#[test] fn $test() { super::$test(cargo_sdt::internal::arch::Arch::Aarch64); })*
        }
        mod riscv64 {
            $(#[test] fn $test() { super::$test(cargo_sdt::internal::arch::Arch::Riscv64); })*
        }
    };
}
pub(crate) use on_every_architecture;

/// Makes a test for each architecture, as [`on_every_architecture`] does, of functions that test the command, the machine or
/// consumers, which do not depend on the architecture. The tests run on x86_64, and on the others with `cargo xtask test --all`.
macro_rules! on_one_architecture {
    ($($test:ident),* $(,)?) => {
        mod x86_64 {
            $(#[test] fn $test() { super::$test(cargo_sdt::internal::arch::Arch::X86_64); })*
        }
        mod aarch64 {
            $(
                #[test]
                #[ignore = "with cargo xtask test --all"]
                fn $test() { super::$test(cargo_sdt::internal::arch::Arch::Aarch64); }
            )*
        }
        mod riscv64 {
            $(
                #[test]
                #[ignore = "with cargo xtask test --all"]
                fn $test() { super::$test(cargo_sdt::internal::arch::Arch::Riscv64); }
            )*
        }
    };
}
pub(crate) use on_one_architecture;

/// Makes tests of functions that take an architecture and a route, one for each pair.
macro_rules! on_every_route {
    ($($test:ident),* $(,)?) => {
        mod native {
            use cargo_sdt::internal::platform::Route;
            use cargo_sdt::internal::arch::Arch;
            $(fn $test(arch: Arch) { super::$test(arch, Route::Native); })*
            crate::bench::on_every_architecture!($($test),*);
        }
        mod provider {
            use cargo_sdt::internal::platform::Route;
            use cargo_sdt::internal::arch::Arch;
            $(fn $test(arch: Arch) { super::$test(arch, Route::Provider); })*
            crate::bench::on_every_architecture!($($test),*);
        }
    };
}
pub(crate) use on_every_route;

/// A file that is built once for each architecture.
#[derive(Debug)]
pub(crate) struct PerArch([OnceLock<PathBuf>; Arch::ALL.len()]);

impl PerArch {
    pub(crate) const fn new() -> Self {
        Self([const { OnceLock::new() }; Arch::ALL.len()])
    }

    /// Returns its path; `build` builds it if it does not exist.
    pub(crate) fn get(&self, arch: Arch, build: impl FnOnce(Arch) -> PathBuf) -> &Path {
        self.0[arch as usize].get_or_init(|| build(arch))
    }
}

static KERNELS: PerArch = PerArch::new();
/// One file for the native route, and one for the other route.
static EXAMPLES: [PerArch; 2] = [PerArch::new(), PerArch::new()];

/// Builds a module of the workspace.
pub(crate) fn build_module(package: &str, arch: Arch, route: Route) -> PathBuf {
    let module = Module { package: package.into(), route, ..workspace::example(arch) };
    module.build(None).unwrap_or_else(|error| panic!("{package} for {arch}: {error}"))
}

/// Returns the path of the example module.
pub(crate) fn module_file(arch: Arch) -> &'static Path {
    module_file_by(arch, Route::default())
}

pub(crate) fn module_file_by(arch: Arch, route: Route) -> &'static Path {
    EXAMPLES[route as usize].get(arch, |arch| build_module(workspace::EXAMPLE, arch, route))
}

/// The example module.
pub(crate) fn module(arch: Arch) -> Vec<u8> {
    module_by(arch, Route::default())
}

/// Returns the example module for a route.
pub(crate) fn module_by(arch: Arch, route: Route) -> Vec<u8> {
    std::fs::read(module_file_by(arch, route)).expect("the example module can be read")
}

/// A running kernel.
pub(crate) fn boot(arch: Arch, cpus: u32) -> Session {
    boot_by(arch, cpus, qemu::find(arch).expect("QEMU is there"))
}

/// Returns the kernel's file.
pub(crate) fn kernel_file(arch: Arch) -> &'static Path {
    KERNELS.get(arch, |arch| kernel::build(arch).expect("the kernel can be built"))
}

/// A running kernel, in this QEMU.
pub(crate) fn boot_by(arch: Arch, cpus: u32, qemu: PathBuf) -> Session {
    let options = Options { arch, qemu, kernel: kernel_file(arch).into(), cpus };
    Session::start(&options, false).expect("the kernel boots")
}

/// A running kernel with the example module loaded.
pub(crate) fn boot_with_module(arch: Arch, cpus: u32) -> Session {
    boot_with_module_by(arch, cpus, Route::default())
}

/// Boots a kernel, and loads the example module for a route.
pub(crate) fn boot_with_module_by(arch: Arch, cpus: u32, route: Route) -> Session {
    let mut session = boot(arch, cpus);
    session.kldload(EXAMPLE, module_by(arch, route)).expect("the example module loads");
    session
}

/// The recorded executions.
pub(crate) fn log() -> Vec<Exec> {
    workload::read(&default_workload()).expect("the recorded log is whole")
}

/// A description as `-n` takes it.
pub(crate) fn name(text: &str) -> &str {
    text
}

/// The example's probe.
pub(crate) fn exec_success() -> &'static str {
    "proc:::exec-success"
}

/// The id of the example's probe.
pub(crate) fn probe_id(session: &mut Session) -> u32 {
    let probes = session.list(exec_success()).expect("the probe can be listed");
    assert_eq!(probes.len(), 1, "{probes:?}");
    probes[0].id
}

/// The records that have arrived for one consumer.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Records by CPU, in order of arrival.
    pub(crate) records: BTreeMap<u32, Vec<Record>>,
    /// Records lost.
    pub(crate) drops: u64,
}

impl Tally {
    /// All records, of all CPUs.
    pub(crate) fn hits(&self) -> u64 {
        self.records.values().map(|records| records.len() as u64).sum()
    }

    /// Records by CPU.
    pub(crate) fn per_cpu(&self, cpus: u32) -> Vec<u64> {
        (0..cpus).map(|cpu| self.records.get(&cpu).map_or(0, |of| of.len() as u64)).collect()
    }
}

/// Takes the records that have arrived for a consumer.
pub(crate) fn tally(session: &mut Session, of: u32) -> Tally {
    let mut tally = Tally::default();
    session.records.retain(|(consumer, records)| {
        if *consumer == of {
            tally.records.entry(records.cpu).or_default().extend(&records.records);
            tally.drops += records.drops;
        }
        *consumer != of
    });
    // A CPU that has lost records and kept none has no entry.
    tally.records.retain(|_, records| !records.is_empty());
    tally
}
