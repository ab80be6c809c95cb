//! The guides of `docs/`.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::setup;
use harness::qemu;

use crate::guide::Guide;

#[test]
fn readme() {
    qemu::find(Arch::X86_64).expect("QEMU");
    Guide::read("README.md", &[]).run();
}

#[test]
fn d_by_example() {
    Guide::read("docs/d.md", &[]).run();
}

#[test]
fn async_programs() {
    Guide::read("docs/async.md", &[]).run();
}

#[test]
fn programs_that_use_tracing() {
    Guide::read("docs/tracing.md", &[]).run();
}

#[test]
fn lost_records() {
    Guide::read("docs/lost-records.md", &[]).run();
}

#[test]
fn your_first_probe_on_freebsd() {
    Guide::read("docs/first-probe-freebsd.md", &["freebsd#"]).run();
}

#[test]
fn your_first_probe_on_illumos() {
    Guide::read("docs/first-probe-illumos.md", &["illumos#"]).run();
}

#[test]
fn your_first_probe_in_your_kernel() {
    qemu::find(Arch::Riscv64).expect("QEMU");
    let guide = Guide::read("docs/first-probe-your-kernel.md", &[]);
    guide.for_target("riscv64imac-unknown-none-elf").run();
}

#[test]
fn your_first_probe_in_a_process() {
    Guide::read("docs/first-probe-process.md", &[]).run();
}

#[test]
fn post_mortem() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.contains(['|', '/']) {
        eprintln!("this system keeps cores elsewhere ({}): not tried", pattern.trim_end());
        return;
    }
    Guide::read("docs/post-mortem.md", &[]).run();
}

#[test]
fn your_kernel_in_an_afternoon() {
    qemu::find(Arch::X86_64).expect("QEMU");
    let guide = Guide::read("docs/your-kernel-in-an-afternoon.md", &[]);
    guide.for_target("x86_64-unknown-none").run();
}

#[test]
fn breakpoint_handlers() {
    Guide::read("docs/breakpoint-handlers.md", &[]).run();
}

#[test]
fn kernels() {
    Guide::read("docs/kernels.md", &[]).run();
}

#[test]
fn your_first_probe_on_a_microcontroller() {
    setup::program("qemu-system-arm", "qemu-system-arm").expect("QEMU");
    let guide = Guide::read("docs/first-probe-microcontroller.md", &[]);
    guide.for_target("thumbv7m-none-eabi").for_target("thumbv6m-none-eabi").run();
}
