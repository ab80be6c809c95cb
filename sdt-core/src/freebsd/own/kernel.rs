//! FreeBSD, as far as its DTrace is concerned.

use crate::dtrace::{Functions, Kernel};
use crate::freebsd::cpu;

/// FreeBSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeBsd;

impl Kernel for FreeBsd {
    #[inline(always)]
    fn functions(&self) -> &'static Functions {
        // Of `dtrace.ko`, which the module depends on. A constant, so that they are called directly.
        const { &Functions::DTRACE }
    }

    #[inline(always)]
    fn interrupts_off(&self) -> usize {
        cpu::interrupts_off()
    }

    #[inline(always)]
    fn interrupts_restore(&self, were: usize) {
        cpu::interrupts_restore(were);
    }
}
