//! Which functions may be called where: those that wait for probe context refuse to run in it.
//!
//! `Kernel` is a safe trait, and while a clause runs its functions can call any safe function of this crate. A function that takes a
//! lock would wait for its own thread. One that frees memory waits until every CPU has left probe context, which the CPU of
//! the caller would not have: the clause would run on in freed memory. So each of them begins with
//! [`need_thread`](Dtrace::need_thread). `docs/kernels.md` lists all functions, and `tests/contexts.rs` calls each.

use core::fmt;

use sdt_core::ops::FrameworkError;

use crate::buffer::ConsumerError;
use crate::counters::PerCpu;
use crate::dtrace::Dtrace;
use crate::host::Host;

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

impl From<ProbeContext> for ConsumerError {
    fn from(_: ProbeContext) -> Self {
        Self::ProbeContext
    }
}

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
}

/// How often a thread looks that may be moved to another CPU while it does.
const LOOKS: usize = 4;

impl<H: Host> Dtrace<H> {
    /// Refuses in probe context.
    ///
    /// Probe context stays on its CPU, so its flag is found in every look. A thread with interrupts on may be moved to another
    /// CPU after it has asked for the number; it is refused only if that happens in each look, and the CPU that it came from
    /// enters probe context each time.
    pub(crate) fn need_thread(&self) -> Result<(), ProbeContext> {
        let Ok(shared) = self.shared() else { return Ok(()) };
        let contexts = Contexts::new(shared.cpus);
        let is_in_probe = (0..LOOKS).all(|_| contexts.is_in_probe(self.host.cpu()));
        if is_in_probe { Err(ProbeContext) } else { Ok(()) }
    }
}
