//! Who runs on a CPU: the processes whose executions are replayed, what writes to a sysctl, and else the kernel itself.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use stand_in_freebsd::imgact::COMMAND_LEN;

use crate::arch::cpu;
use crate::arguments;

/// What runs on one CPU. Written by that CPU alone, with interrupts off; read in probe context there.
struct Running {
    pid: AtomicU32,
    /// Bytes of the name; 0 for the kernel.
    length: AtomicUsize,
    name: UnsafeCell<[u8; COMMAND_LEN]>,
    /// Interrupts of devices that are being handled.
    interrupts: AtomicU32,
}

// SAFETY: of one CPU, and whoever writes there has interrupts off.
unsafe impl Sync for Running {}

static RUNNING: [Running; cpu::MAX_CPUS] = [const {
    Running {
        pid: AtomicU32::new(0),
        length: AtomicUsize::new(0),
        name: UnsafeCell::new([0; COMMAND_LEN]),
        interrupts: AtomicU32::new(0),
    }
}; cpu::MAX_CPUS];

/// What the kernel's own process is called, whose number is 0.
const KERNEL: &[u8] = b"kernel";

/// Runs `work` as a process that executes this image, whose name is the last part of its path, cut off (`p_comm`). For
/// threads with interrupts on.
pub(crate) fn run<R>(pid: u32, path: &[u8], work: impl FnOnce() -> R) -> R {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let name = &name[..name.len().min(COMMAND_LEN)];
    become_process(pid, name);
    let result = arguments::with(path, work);
    become_process(0, b"");
    result
}

/// Runs `work` as a command that a user has typed. All of them are one process, as one that writes to several sysctls is.
pub(crate) fn command<R>(name: &str, work: impl FnOnce() -> R) -> R {
    /// Above those of recorded processes.
    const PID: u32 = 100_000;
    run(PID, name.as_bytes(), work)
}

fn become_process(pid: u32, name: &[u8]) {
    let enabled = cpu::interrupts_off();
    let here = here();
    here.pid.store(pid, Ordering::Relaxed);
    here.length.store(name.len(), Ordering::Relaxed);
    // SAFETY: this CPU's, interrupts are off, and this is not probe context.
    unsafe { (&mut *here.name.get())[..name.len()].copy_from_slice(name) };
    cpu::restore_interrupts(enabled);
}

/// Runs the handler of a device's interrupt.
pub(crate) fn in_interrupt(handler: impl FnOnce()) {
    here().interrupts.fetch_add(1, Ordering::Relaxed);
    handler();
    here().interrupts.fetch_sub(1, Ordering::Relaxed);
}

fn here() -> &'static Running {
    &RUNNING[cpu::current()]
}

/// The number of the process that runs. Probe context.
pub(crate) fn pid() -> u32 {
    here().pid.load(Ordering::Relaxed)
}

/// Its name. Probe context.
pub(crate) fn name() -> &'static [u8] {
    let here = here();
    match here.length.load(Ordering::Relaxed) {
        0 => KERNEL,
        // SAFETY: nobody writes there while this CPU is in probe context.
        length => unsafe { &(&*here.name.get())[..length] },
    }
}

/// Interrupts that are being handled. Probe context.
pub(crate) fn interrupts() -> u32 {
    here().interrupts.load(Ordering::Relaxed)
}

/// The thread that runs: a process has one, and so has the kernel on each CPU. Probe context.
pub(crate) fn thread() -> u64 {
    match pid() {
        0 => cpu::current() as u64 + 1,
        pid => (1 << 32) + u64::from(pid),
    }
}
