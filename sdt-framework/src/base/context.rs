//! Which functions may be called where: those that wait for probe context refuse to run in it.
//!
//! `Kernel` is a safe trait, and while a clause runs its functions can call any safe function of this crate. A function that takes a
//! lock would wait for its own thread. A function that frees memory waits until every CPU has left probe context, which the CPU of
//! the caller would not have: the clause would run on in freed memory. So each function of [`Dtrace`](crate::Dtrace) that does
//! either begins with [`need_thread`](Contexts::need_thread). `docs/kernels.md` lists all functions, and `tests/contexts.rs` calls each.

use core::fmt;

use sdt_core::ops::FrameworkError;

use super::counters::PerCpu;

/// The caller runs in probe context, where this function would wait for ever, or free memory that is in use. Nothing was
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

/// The CPUs of a framework, each of which is in probe context or not.
#[derive(Clone, Copy, Debug)]
pub struct Contexts(&'static [PerCpu]);

impl Contexts {
    pub(crate) const fn new(cpus: &'static [PerCpu]) -> Self {
        Self(cpus)
    }

    /// Whether a CPU is in probe context. Exact for the CPU that asks, with interrupts off.
    pub fn is_in_probe(self, cpu: usize) -> bool {
        self.0.get(cpu).is_some_and(PerCpu::is_in_probe)
    }

    /// Refuses in probe context.
    ///
    /// Probe context stays on its CPU, so its flag is found at every attempt. A thread with interrupts on may be moved to another
    /// CPU after it has asked for the number; it is refused only if that happens at each attempt, and the CPU that it came from
    /// enters probe context each time.
    pub(crate) fn need_thread(self, cpu: impl Fn() -> usize) -> Result<(), ProbeContext> {
        let is_in_probe = (0..ATTEMPTS).all(|_| self.is_in_probe(cpu()));
        if is_in_probe { Err(ProbeContext) } else { Ok(()) }
    }
}

/// How often the flag is read for a thread that may be moved to another CPU meanwhile.
const ATTEMPTS: usize = 4;
