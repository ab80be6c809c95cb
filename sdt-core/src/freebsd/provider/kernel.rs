//! The binding to FreeBSD's DTrace.

use crate::dtrace::{Functions, Kernel};
use crate::freebsd::cpu;

unsafe extern "C" {
    // Returns when every CPU has been out of probe context at least once. Sleeps.
    pub(super) safe fn dtrace_sync();
}

/// FreeBSD's DTrace.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeBsd;

// SAFETY: the functions are DTrace's, and interrupts are off from the one call to the other.
unsafe impl Kernel for FreeBsd {
    #[inline(always)]
    fn functions(&self) -> &'static Functions {
        // Functions of `dtrace.ko`, on which the module depends. A constant, so that they are called directly.
        const { &Functions::DTRACE }
    }

    #[inline(always)]
    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        let were = cpu::interrupts_off();
        let result = f();
        cpu::interrupts_restore(were);
        result
    }
}
