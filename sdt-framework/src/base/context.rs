//! Probe context, in which functions that would wait return an error.
//!
//! `Kernel` is a safe trait, and its functions, which run during a clause, can call any safe function of this crate. A function
//! that takes a lock would wait for its own thread. A function that frees memory waits until every CPU has left probe context; if
//! it did not wait for the calling CPU, the clause would continue in freed memory. So each function of
//! [`Dtrace`](crate::Dtrace) that does either begins with [`need_thread`](Contexts::need_thread). `docs/kernels.md` lists all
//! functions, and `tests/contexts` calls each.

use core::fmt;

use sdt_core::ops::FrameworkError;

use super::counters::PerCpu;

/// Error of a function that was called in probe context, where it would wait forever or free memory in use. Nothing was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeContext;

impl fmt::Display for ProbeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("called in probe context, while this CPU records a hit; call it from a thread")
    }
}

impl core::error::Error for ProbeContext {}

impl From<ProbeContext> for FrameworkError {
    fn from(_: ProbeContext) -> Self {
        Self::ProbeContext
    }
}

/// The flags that show which CPUs of a framework are in probe context.
#[derive(Clone, Copy, Debug)]
pub struct Contexts(&'static [PerCpu]);

impl Contexts {
    pub(crate) const fn new(cpus: &'static [PerCpu]) -> Self {
        Self(cpus)
    }

    /// Returns whether a CPU is in probe context. The answer is exact for the current CPU with interrupts off.
    pub fn is_in_probe(self, cpu: usize) -> bool {
        self.0.get(cpu).is_some_and(PerCpu::is_in_probe)
    }

    /// Returns an error in probe context.
    ///
    /// Probe context stays on its CPU, so each attempt reads the flag of this CPU. The scheduler can move a thread to another
    /// CPU after `cpu` has returned. Such a thread is refused only if this happens at each attempt, and the previous CPU
    /// enters probe context each time.
    pub(crate) fn need_thread(self, cpu: impl Fn() -> usize) -> Result<(), ProbeContext> {
        let is_in_probe = (0..ATTEMPTS).all(|_| self.is_in_probe(cpu()));
        if is_in_probe { Err(ProbeContext) } else { Ok(()) }
    }
}

/// The number of attempts for a thread that can be moved to another CPU meanwhile.
const ATTEMPTS: usize = 4;
