//! The host, as programs see it while a probe fires.

use core::sync::atomic::AtomicU32;

use super::run::count;
use super::speculation::{Lack, Speculation};
use super::tracing::Tracing;
use crate::dif::{Destruction, Kernel, LockQuestion, Number, Symbol, Text};
use crate::registry::Origin;

/// What the probe that fires brings along, and what the host knows. Probe context.
pub(crate) struct Surroundings<'a> {
    pub(crate) host: &'a (dyn Kernel + Sync),
    pub(crate) now: &'a dyn Fn() -> u64,
    pub(crate) tracing: &'a Tracing,
    pub(crate) cpu: usize,
    pub(crate) id: u32,
    /// The provider, if it knows of more arguments than it has brought along.
    pub(crate) origin: Option<&'a Origin>,
    /// Frames of the provider's own, on top of the stack.
    pub(crate) aframes: u32,
}

/// Frames that are counted for `stackdepth`, at most.
const DEEPEST: usize = 256;

/// Arguments that a provider is asked for: as many as libdtrace asks about (`DTRACE_MAXARGS`).
const ARGUMENTS: u64 = 32;

impl Kernel for Surroundings<'_> {
    fn timestamp(&self) -> u64 {
        (self.now)()
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        self.host.load(address, into)
    }

    fn is_toxic(&self, address: u64, length: u64) -> bool {
        self.host.is_toxic(address, length)
    }

    fn aligned(&self) -> bool {
        self.host.aligned()
    }

    fn thread(&self) -> u64 {
        self.host.thread()
    }

    fn interrupts(&self) -> u8 {
        self.host.interrupts()
    }

    fn number(&self, which: Number) -> Option<u64> {
        let frames = |frames: &mut [u64]| self.host.stack(self.aframes, frames);
        self.host.number(which).or_else(|| match which {
            // What a stack tells: of a host that has one.
            Number::Caller => {
                let mut first = [0];
                (frames(&mut first) != 0).then_some(first[0])
            }
            Number::Stackdepth => {
                Some(frames(&mut [0; DEEPEST]) as u64).filter(|depth| *depth != 0)
            }
            _ => None,
        })
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        self.host.text(which)
    }

    fn argument(&self, index: u64) -> u64 {
        match (self.origin, i32::try_from(index)) {
            (Some(origin), Ok(number)) if index < ARGUMENTS => {
                // SAFETY: the probe was live in this probe context, which unregistering waits for, and the hit is one
                // that the provider has made.
                unsafe { origin.arg_value(self.id, number) }
            }
            _ => 0,
        }
    }

    fn user_register(&self, index: u64) -> Option<u64> {
        self.host.user_register(index)
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        self.host.copyin(address, into)
    }

    fn copyout(&self, from: &[u8], address: u64) -> bool {
        self.host.copyout(from, address)
    }

    fn lock(&self, question: LockQuestion, address: u64) -> Option<u64> {
        self.host.lock(question, address)
    }

    fn progenyof(&self, process: u64) -> Option<bool> {
        self.host.progenyof(process)
    }

    fn stack(&self, own: u32, frames: &mut [u64]) -> usize {
        self.host.stack(own, frames)
    }

    fn ustack(&self, frames: &mut [u64]) -> usize {
        self.host.ustack(frames)
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) {
        self.host.symbol(address, show);
    }

    fn destroy(&self, how: Destruction) -> bool {
        self.host.destroy(how)
    }

    fn speculation(&self) -> Option<u64> {
        Some(match Speculation::take(self.tracing.speculations) {
            Ok(number) => number as u64,
            Err(lack) => {
                if let Some(here) = self.tracing.cpus.get(self.cpu) {
                    let [busy, unavailable] = &here.lacks;
                    count(if lack == Lack::Busy { busy } else { unavailable });
                }
                0
            }
        })
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        self.host.predicate_cache()
    }
}
