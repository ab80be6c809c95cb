//! What all tests use: the kernel, the module, the log, and counting.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use sdt_protocol::{Event, Exec, Field, Record, Spec};
use xtask::build::{self, Module};
use xtask::machine::Options;
use xtask::session::Session;
use xtask::setup;
use xtask::workload;
use xtask::workspace::{Arch, default_workload};

/// The example module's file name.
pub(crate) const EXAMPLE: &str = "proc_example.ko";

static KERNEL: LazyLock<PathBuf> =
    LazyLock::new(|| build::kernel(Arch::X86_64).expect("the kernel can be built"));

static MODULE: LazyLock<PathBuf> = LazyLock::new(|| {
    Module::example(Arch::X86_64).build(None).expect("the example module can be built")
});

/// Where the example module is.
pub(crate) fn module_file() -> &'static PathBuf {
    &MODULE
}

/// The example module.
pub(crate) fn module() -> Vec<u8> {
    std::fs::read(&*MODULE).expect("the example module can be read")
}

/// A running kernel.
pub(crate) fn boot(cpus: u32) -> Session {
    let qemu = setup::qemu(Arch::X86_64).expect("QEMU is there");
    let options = Options { arch: Arch::X86_64, qemu, kernel: KERNEL.clone(), cpus };
    Session::start(&options, false).expect("the kernel boots")
}

/// A running kernel with the example module loaded.
pub(crate) fn boot_with_module(cpus: u32) -> Session {
    let mut session = boot(cpus);
    session.kldload(EXAMPLE, module()).expect("the example module loads");
    session
}

/// The recorded executions.
pub(crate) fn log() -> Vec<Exec> {
    workload::read(&default_workload()).expect("the recorded log is whole")
}

/// A description as `-n` takes it.
pub(crate) fn name(text: &str) -> Spec {
    Spec { text: text.into(), last: Field::Name }
}

/// The example's probe.
pub(crate) fn exec_success() -> Spec {
    name("proc:::exec-success")
}

/// The id of the example's probe.
pub(crate) fn probe_id(session: &mut Session) -> u32 {
    let probes = session.list(exec_success()).expect("the probe can be listed");
    assert_eq!(probes.len(), 1, "{probes:?}");
    probes[0].id
}

/// What has arrived for one consumer.
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

/// Takes what has arrived for a consumer.
pub(crate) fn tally(session: &mut Session, of: u32) -> Tally {
    let mut tally = Tally::default();
    session.wire.events.retain(|event| match event {
        Event::Records { consumer, cpu, records } if *consumer == of => {
            tally.records.entry(*cpu).or_default().extend(records);
            false
        }
        Event::Drops { consumer, count, .. } if *consumer == of => {
            tally.drops += count;
            false
        }
        _ => true,
    });
    tally
}
