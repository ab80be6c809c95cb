//! CPUs of a process, for `sdt-framework`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use sdt_framework::kernel::{Kernel, Unknown};
use sdt_framework::{Host, SpinLock};

/// Number of CPUs of [`Threads`].
pub const CPUS: usize = 4;

/// A single CPU, which the users of the framework use one after the other. Its clock stands still. `K` answers the queries of
/// programs in D.
#[derive(Clone, Copy, Debug)]
pub struct Uniprocessor<K = Unknown>(K);

impl Uniprocessor {
    /// Returns the CPU.
    ///
    /// # Safety
    /// One thread at a time uses a framework with this CPU.
    pub const unsafe fn new() -> Self {
        Self(Unknown)
    }
}

impl<K> Uniprocessor<K> {
    /// Returns the CPU with this kernel.
    ///
    /// # Safety
    /// As [`new`](Uniprocessor::new).
    pub const unsafe fn with(kernel: K) -> Self {
        Self(kernel)
    }
}

// SAFETY: the caller of `new` or `with` guarantees that one thread at a time uses the framework.
unsafe impl<K: Kernel + Sync + 'static> Host for Uniprocessor<K> {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn timestamp(&self) -> u64 {
        1
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    fn sync(&self) {}

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        &self.0
    }
}

/// The number of the next thread.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    /// The id of the last predicate that was false in this thread.
    static PREDICATE: &'static AtomicU32 = Box::leak(Box::default());
    static CPU: Cell<usize> = const { Cell::new(usize::MAX) };
    static OFF: Cell<bool> = const { Cell::new(false) };
}

/// CPUs for tests with several threads: each thread that fires is a CPU.
#[derive(Debug)]
pub struct Threads {
    /// The number of times that each CPU has entered and left probe context: odd while it is inside.
    crossings: [AtomicUsize; CPUS],
    clock: AtomicU64,
    /// The number of waits for the end of probe context.
    pub syncs: AtomicUsize,
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

impl Threads {
    /// No thread is a CPU yet.
    pub const fn new() -> Self {
        Self {
            crossings: [const { AtomicUsize::new(0) }; CPUS],
            clock: AtomicU64::new(1),
            syncs: AtomicUsize::new(0),
        }
    }

    /// Makes the current thread this CPU. No two threads may be the same CPU at the same time.
    pub fn bind(cpu: usize) {
        CPU.set(cpu);
    }

    fn cross(&self) {
        if let Some(crossings) = self.crossings.get(CPU.get()) {
            crossings.fetch_add(1, Ordering::AcqRel);
        }
    }
}

// SAFETY: tests bind a thread to a CPU before it fires, one thread a CPU at a time. `sync` and the CPUs
// order themselves by read-modify-writes of `crossings`: if that of `sync` comes after a CPU's entry,
// it waits for the exit and acquires it; if before, the entry acquires what `sync` released.
unsafe impl Host for Threads {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        CPU.get()
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn timestamp(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        if OFF.replace(true) {
            return f();
        }
        /// Leaves probe context when dropped, also after a panic, so that a thread that waits for this CPU does not wait forever.
        struct Inside<'t>(&'t Threads);

        impl Drop for Inside<'_> {
            fn drop(&mut self) {
                self.0.cross();
                OFF.set(false);
            }
        }

        self.cross();
        let _inside = Inside(self);
        f()
    }

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }

    // There are more threads than CPUs here.
    fn relax() {
        std::thread::yield_now();
    }

    fn sync(&self) {
        assert!(!OFF.get(), "sync in probe context");
        self.syncs.fetch_add(1, Ordering::Relaxed);
        for crossings in &self.crossings {
            let seen = crossings.fetch_add(0, Ordering::AcqRel);
            while seen % 2 == 1 && crossings.load(Ordering::Acquire) == seen {
                std::thread::yield_now();
            }
        }
    }
}

/// A kernel without readable memory.
impl Kernel for Threads {
    fn timestamp(&self) -> u64 {
        Host::timestamp(self)
    }

    fn load(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    fn thread(&self) -> u64 {
        THREAD.with(|thread| *thread)
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        Some(PREDICATE.with(|word| *word))
    }
}
