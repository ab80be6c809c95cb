//! Kernels and machines that fail: the error is clear, and no process or file remains.

use harness::qemu;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cargo_sdt::internal::arch::Arch;
use harness::machine::Options;
use harness::session::{Session, SessionError};

use crate::bench::{boot_with_module, exec_success, log, on_one_architecture};

fn kill(pid: u32) {
    let pid = i32::try_from(pid).expect("process ids are positive i32s");
    // SAFETY: no memory is involved; the process is a child of this one that has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

on_one_architecture!(a_machine_that_dies_is_reported, a_missing_kernel_is_reported,);

fn a_machine_that_dies_is_reported(arch: Arch) {
    let mut session = boot_with_module(arch, 2);
    let consumer = session.open().unwrap();
    session.enable(consumer, exec_success()).unwrap();
    session.go(consumer).unwrap();
    session.exec(&log()[..20]).unwrap();
    let process = format!("/proc/{}", session.pid());
    kill(session.pid());
    let error = session.exec(&log()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, SessionError::Failed(_)), "{text}");
    assert!(text.contains("QEMU ended: signal: 9 (SIGKILL)"), "{text}");
    drop(session);
    assert!(!Path::new(&process).exists());
}

fn a_missing_kernel_is_reported(arch: Arch) {
    let folder = tempfile::tempdir().unwrap();
    ends_at_once(arch, folder.path().join("kernel"));
}

/// On the other architectures, QEMU starts any file.
#[test]
fn a_file_that_is_no_kernel_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel");
    std::fs::write(&kernel, "not a kernel").unwrap();
    ends_at_once(Arch::X86_64, kernel);
}

fn ends_at_once(arch: Arch, kernel: PathBuf) {
    let qemu = qemu::find(arch).unwrap();
    let start = Instant::now();
    let error = Session::start(&Options { arch, qemu, kernel, cpus: 2 }, false);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("QEMU ended: exit status: 1"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(50), "noticed at once");
}
