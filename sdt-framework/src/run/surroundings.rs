//! The host's interface for programs while a probe fires.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;

use super::speculation::{Lack, Speculation};
use super::state::RunState;
use crate::base::counters::{PerCpu, bump};
use crate::base::host::Host;
use crate::base::origin::Origin;
use crate::kernel::{Costs, Destruction, Kernel, LockQuestion, Number, Symbol, Text};
use crate::machine::{DEEPEST, Names};

/// The data of the hit and of the host. Probe context.
pub(crate) struct Surroundings<'a, H> {
    pub(crate) host: &'a H,
    /// The state of the run whose clauses run; `None` before the first clause.
    pub(crate) state: Cell<Option<&'a RunState>>,
    pub(crate) cpu: usize,
    /// The counters of the CPU.
    pub(crate) this: &'a PerCpu,
    pub(crate) id: u32,
    /// The provider's part of the probe, which was live in this probe context.
    pub(crate) origin: Origin<'a>,
    /// Whether the provider's `getargval` may return more arguments than the hit contains.
    pub(crate) asks: bool,
}

impl<H: Host> Names for Surroundings<'_, H> {
    fn name(&self, item: usize) -> Option<&[u8]> {
        self.origin.name(item)
    }
}

/// The number of arguments for which a provider is queried: as many as libdtrace queries (`DTRACE_MAXARGS`).
const ARGUMENTS: u64 = 32;

impl<H: Host> Surroundings<'_, H> {
    /// Returns `caller` or `stackdepth` from the host's stack, if the host has access to stacks.
    #[cold]
    fn of_stack(&self, which: Number) -> Option<u64> {
        let frames = |frames: &mut [u64]| self.host.kernel().stack(self.origin.aframes(), frames);
        match which {
            Number::Caller => {
                let mut first = [0];
                (frames(&mut first) != 0).then_some(first[0])
            }
            Number::Stackdepth => {
                Some(frames(&mut [0; DEEPEST]) as u64).filter(|depth| *depth != 0)
            }
            _ => None,
        }
    }
}

impl<H: Host> Kernel for Surroundings<'_, H> {
    fn timestamp(&self) -> u64 {
        self.host.timestamp()
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        self.host.kernel().load(address, into)
    }

    fn costs(&self) -> Costs {
        self.state.get().map_or(Costs::DEFAULT, |state| state.costs)
    }

    fn is_toxic(&self, address: u64, length: u64) -> bool {
        self.host.kernel().is_toxic(address, length)
    }

    fn aligned(&self) -> bool {
        self.host.kernel().aligned()
    }

    fn thread(&self) -> u64 {
        self.host.kernel().thread()
    }

    fn interrupts(&self) -> u8 {
        self.host.kernel().interrupts()
    }

    fn number(&self, which: Number) -> Option<u64> {
        self.host.kernel().number(which).or_else(|| self.of_stack(which))
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        self.host.kernel().text(which)
    }

    fn argument(&self, index: u64) -> u64 {
        if !self.asks || index >= ARGUMENTS {
            return 0;
        }
        self.origin.arg_value(self.id, index as i32)
    }

    fn user_register(&self, index: u64) -> Option<u64> {
        self.host.kernel().user_register(index)
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        self.host.kernel().copyin(address, into)
    }

    fn copyout(&self, from: &[u8], address: u64) -> bool {
        self.host.kernel().copyout(from, address)
    }

    fn lock(&self, question: LockQuestion, address: u64) -> Option<u64> {
        self.host.kernel().lock(question, address)
    }

    fn progenyof(&self, process: u64) -> Option<bool> {
        self.host.kernel().progenyof(process)
    }

    fn stack(&self, own: u32, frames: &mut [u64]) -> usize {
        self.host.kernel().stack(own, frames)
    }

    fn ustack(&self, frames: &mut [u64]) -> usize {
        self.host.kernel().ustack(frames)
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) {
        self.host.kernel().symbol(address, show);
    }

    fn destroy(&self, how: Destruction) -> bool {
        self.host.kernel().destroy(how)
    }

    fn speculation(&self) -> Option<u64> {
        let state = self.state.get()?;
        Some(match Speculation::take(state.speculations) {
            Ok(number) => number as u64,
            Err(lack) => {
                if let Some(here) = state.here(self.cpu) {
                    let [busy, unavailable] = &here.lacks;
                    bump(if lack == Lack::Busy { busy } else { unavailable }, 1);
                }
                0
            }
        })
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        self.host.kernel().predicate_cache()
    }
}
