//! What the processes whose executions are replayed were called with: of a recorded one that is the path of its image.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::arch::cpu;

/// Of what runs on one CPU. Written by that CPU alone; read in probe context there.
struct Arguments {
    start: AtomicPtr<u8>,
    /// 0 where no process runs.
    length: AtomicUsize,
}

static ARGUMENTS: [Arguments; cpu::MAX_CPUS] = [const {
    Arguments { start: AtomicPtr::new(core::ptr::null_mut()), length: AtomicUsize::new(0) }
}; cpu::MAX_CPUS];

/// Runs `work` as a process that was called with these. It stays on its CPU: there is no scheduler.
pub(crate) fn with<R>(arguments: &[u8], work: impl FnOnce() -> R) -> R {
    let here = &ARGUMENTS[cpu::current()];
    // Release, with `current`: who sees a length sees where.
    here.start.store(arguments.as_ptr().cast_mut(), Ordering::Relaxed);
    here.length.store(arguments.len(), Ordering::Release);
    let result = work();
    here.length.store(0, Ordering::Release);
    result
}

/// Those of the process that runs. Probe context.
pub(crate) fn current() -> &'static [u8] {
    let here = &ARGUMENTS[cpu::current()];
    match here.length.load(Ordering::Acquire) {
        0 => b"",
        // SAFETY: they stay while `with` runs, which this has interrupted or is called from, on the same CPU; and what is
        // recorded of them is copied before it goes on.
        length => unsafe {
            core::slice::from_raw_parts(here.start.load(Ordering::Relaxed), length)
        },
    }
}
