//! The process that runs on a CPU: a process whose execution is replayed from a log, a command of a user, or the kernel itself.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use stand_in_freebsd::imgact::COMMAND_LEN;

use crate::arch::cpu;

/// The process of one CPU. Only that CPU uses it: it writes with interrupts off, and reads in probe context.
struct Running {
    pid: AtomicU32,
    /// The length of the name in bytes; 0 for the kernel.
    length: AtomicUsize,
    name: UnsafeCell<[u8; COMMAND_LEN]>,
    /// `execargs`: the path of the image. A log of executions has no arguments.
    arguments: AtomicPtr<u8>,
    arguments_length: AtomicUsize,
    /// The number of device interrupts that the CPU is handling.
    interrupts: AtomicU32,
}

// SAFETY: one CPU uses each slot, and writes to it with interrupts off.
unsafe impl Sync for Running {}

static RUNNING: [Running; cpu::MAX_CPUS] = [const {
    Running {
        pid: AtomicU32::new(0),
        length: AtomicUsize::new(0),
        name: UnsafeCell::new([0; COMMAND_LEN]),
        arguments: AtomicPtr::new(core::ptr::null_mut()),
        arguments_length: AtomicUsize::new(0),
        interrupts: AtomicU32::new(0),
    }
}; cpu::MAX_CPUS];

/// Name of the kernel's own process, whose number is 0.
const KERNEL: &[u8] = b"kernel";

/// Runs `work` as a process that executes the image at `path`. The process's name is the last component of the path, truncated
/// (`p_comm`). Must be called with interrupts on, and not in an interrupt handler. There is no scheduler, so `work` stays on this
/// CPU.
pub(crate) fn run<R>(pid: u32, path: &[u8], work: impl FnOnce() -> R) -> R {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    become_process(pid, &name[..name.len().min(COMMAND_LEN)], path);
    let result = work();
    become_process(0, b"", b"");
    result
}

/// Runs `work` as a command of a user. All commands have the same pid, as if one process had written to several sysctls.
pub(crate) fn command<R>(name: &str, work: impl FnOnce() -> R) -> R {
    /// The pid of all commands, which is higher than the pids in logs.
    const PID: u32 = 100_000;
    run(PID, name.as_bytes(), work)
}

fn become_process(pid: u32, name: &[u8], arguments: &[u8]) {
    let enabled = cpu::interrupts_off();
    let here = here();
    here.pid.store(pid, Ordering::Relaxed);
    here.length.store(name.len(), Ordering::Relaxed);
    here.arguments.store(arguments.as_ptr().cast_mut(), Ordering::Relaxed);
    here.arguments_length.store(arguments.len(), Ordering::Relaxed);
    // SAFETY: only this CPU uses the slot, and interrupts are off, so no other code reads it during the copy.
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

/// Returns the number of the process that runs. Probe context.
pub(crate) fn pid() -> u32 {
    here().pid.load(Ordering::Relaxed)
}

/// Returns the name of the process that runs. Probe context.
pub(crate) fn name() -> &'static [u8] {
    let here = here();
    match here.length.load(Ordering::Relaxed) {
        0 => KERNEL,
        // SAFETY: only this CPU writes the name, and never in probe context.
        length => unsafe { &(&*here.name.get())[..length] },
    }
}

/// Returns the arguments of the process that runs; empty for the kernel. Probe context: the caller must copy them before it
/// leaves probe context.
pub(crate) fn arguments() -> &'static [u8] {
    let here = here();
    match here.arguments_length.load(Ordering::Relaxed) {
        0 => b"",
        // SAFETY: the bytes are the `path` of `run`, which runs on this CPU and clears the pointer before it returns.
        length => unsafe {
            core::slice::from_raw_parts(here.arguments.load(Ordering::Relaxed), length)
        },
    }
}

/// Returns the number of interrupts that are being handled. Probe context.
pub(crate) fn interrupts() -> u32 {
    here().interrupts.load(Ordering::Relaxed)
}

/// Returns the id of the thread that runs. A process has one thread; the kernel has one on each CPU. Probe context.
pub(crate) fn thread() -> u64 {
    match pid() {
        0 => cpu::current() as u64 + 1,
        pid => (1 << 32) + u64::from(pid),
    }
}
