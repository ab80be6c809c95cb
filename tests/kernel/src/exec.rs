//! Execution of images: performs the parts of `exec` that modules can observe, on all CPUs at once.

use alloc::collections::VecDeque;
use alloc::ffi::CString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sdt_protocol::Exec;
use spin::Mutex;

use crate::arch::{self, cpu};
use crate::{process, smp, system};

/// The images of one request.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The request's number.
    pub(crate) seq: u32,
    images: Vec<(u32, CString)>,
    /// The number of CPUs that have finished.
    done: AtomicUsize,
    counts: [AtomicU64; cpu::MAX_CPUS],
}

impl Batch {
    /// Returns whether all CPUs are done.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == smp::online()
    }

    /// Returns the number of executed images for each CPU.
    pub(crate) fn per_cpu(&self) -> Vec<u64> {
        let counts = self.counts.iter().take(smp::online());
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Returns the index of the next image for this CPU, beginning at `from`. The pid selects the CPU, so a process always
    /// runs on the same CPU.
    fn next(&self, cpu: usize, from: usize) -> Option<usize> {
        let cpus = smp::online();
        (from..self.images.len()).find(|&index| self.images[index].0 as usize % cpus == cpu)
    }

    fn execute(&self, cpu: usize, index: usize) {
        let (pid, path) = &self.images[index];
        let execute = || system::current().execute(*pid, path);
        process::run(*pid, path.to_bytes(), execute);
        self.counts[cpu].fetch_add(1, Ordering::Relaxed);
    }

    fn finish(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }
}

/// Batches that each CPU has to execute. Not for interrupt handlers: the lock leaves interrupts on.
static QUEUES: [Mutex<VecDeque<Arc<Batch>>>; cpu::MAX_CPUS] =
    [const { Mutex::new(VecDeque::new()) }; cpu::MAX_CPUS];

/// The error if a path contains a NUL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadPath;

/// Queues the images of a request on all CPUs.
pub(crate) fn submit(seq: u32, execs: Vec<Exec>) -> Result<Arc<Batch>, BadPath> {
    let images = execs
        .into_iter()
        .map(|exec| CString::new(exec.path).map(|path| (exec.pid, path)).map_err(|_| BadPath))
        .collect::<Result<_, _>>()?;
    let batch = Arc::new(Batch {
        seq,
        images,
        done: AtomicUsize::new(0),
        counts: [const { AtomicU64::new(0) }; cpu::MAX_CPUS],
    });
    for queue in QUEUES.iter().take(smp::online()) {
        queue.lock().push_back(Arc::clone(&batch));
    }
    if smp::online() > 1 {
        arch::wake_others();
    }
    Ok(batch)
}

/// Progress of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    current: Option<(Arc<Batch>, usize)>,
}

impl Worker {
    /// Executes the next image for this CPU, or finishes a batch. Returns whether there was any work.
    pub(crate) fn step(&mut self) -> bool {
        let cpu = cpu::current();
        if self.current.is_none() {
            let batch = QUEUES[cpu].lock().pop_front();
            self.current = batch.map(|batch| (batch, 0));
        }
        let Some((batch, from)) = &mut self.current else { return false };
        match batch.next(cpu, *from) {
            Some(index) => {
                batch.execute(cpu, index);
                *from = index + 1;
            }
            None => {
                batch.finish();
                self.current = None;
            }
        }
        true
    }
}

/// The loop of all CPUs except the first: executes images and other requests of the first CPU, and sleeps when there
/// are none. Interrupts are off at the call.
pub(crate) fn work_forever() -> ! {
    cpu::restore_interrupts(true);
    let mut worker = Worker::default();
    loop {
        if smp::take_part() || worker.step() {
            continue;
        }
        cpu::interrupts_off();
        if QUEUES[cpu::current()].lock().is_empty() && !smp::is_wanted() {
            cpu::wait_for_interrupt();
        } else {
            cpu::restore_interrupts(true);
        }
    }
}
