//! A host with settings for the tests of programs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use recording_host::cpus::Threads;
use sdt_framework::kernel::{Destruction, Kernel as Knows, Number};
use sdt_framework::{Host, SpinLock};

use crate::run::Kernel;

/// A machine whose CPUs are threads, with a clock that the test sets, a process and a stack. It only records destructive
/// actions.
#[derive(Default)]
pub struct Machine {
    pub threads: Threads,
    pub now: AtomicU64,
    pub changes: AtomicUsize,
    /// Whether it samples its threads.
    pub samples: AtomicBool,
    /// The calls of `sample_threads`: the timer, and its interval, or `None` if the call ended sampling.
    pub samplings: Mutex<Vec<(usize, Option<u64>)>>,
    /// The number of calls of `thread`.
    pub looks: AtomicUsize,
    /// The depth of nested interrupts.
    pub interrupts: AtomicU32,
    pub destroyed: Mutex<Vec<Destruction>>,
}

// SAFETY: `cpu`, `without_interrupts` and `sync` are those of `Threads`, which fulfils the contract of `Host`.
unsafe impl Host for Machine {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        self.threads.cpu()
    }

    fn cpus(&self) -> usize {
        self.threads.cpus()
    }

    fn timestamp(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        self.threads.without_interrupts(f)
    }

    fn sync(&self) {
        self.threads.sync();
    }

    fn kernel(&self) -> &(dyn Knows + Sync) {
        self
    }

    fn timers_changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn sample_threads(&self, timer: usize, interval: Option<u64>) -> bool {
        let samples = self.samples.load(Ordering::Relaxed);
        if samples {
            self.samplings.lock().unwrap().push((timer, interval));
        }
        samples
    }

    fn unsampled_threads(&self) -> u32 {
        u32::from(self.samples.load(Ordering::Relaxed))
    }
}

impl Knows for Machine {
    fn timestamp(&self) -> u64 {
        unreachable!("the host is asked")
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        into.fill(address as u8);
        (0x1000..0x2000).contains(&address)
    }

    fn number(&self, which: Number) -> Option<u64> {
        match which {
            Number::Pid => Some(77),
            Number::Stackdepth => Some(3),
            _ => None,
        }
    }

    /// All memory of the process is readable.
    fn copyin(&self, _: u64, into: &mut [u8]) -> bool {
        into.fill(b'u');
        true
    }

    fn thread(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.threads.thread()
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        self.threads.predicate_cache()
    }

    fn interrupts(&self) -> u8 {
        self.interrupts.load(Ordering::Relaxed) as u8
    }

    fn stack(&self, own: u32, frames: &mut [u64]) -> usize {
        let count = frames.len().min(3);
        for (frame, address) in frames.iter_mut().zip(u64::from(own)..).take(count) {
            *frame = 0x100 + address;
        }
        count
    }

    fn ustack(&self, frames: &mut [u64]) -> usize {
        frames.iter_mut().take(2).for_each(|frame| *frame = 0x55);
        2
    }

    fn destroy(&self, how: Destruction) -> bool {
        self.destroyed.lock().unwrap().push(how);
        true
    }
}

pub fn machine() -> Kernel<Machine> {
    Kernel::with(Machine::default(), 4 << 20)
}
