//! The binding to illumos's DTrace, with the functions that the companion passed.

use core::sync::atomic::{AtomicPtr, Ordering};

use super::cpu;
use crate::dtrace::{Functions, Kernel};

/// DTrace's functions; null until a companion has been loaded.
static FUNCTIONS: AtomicPtr<Functions> = AtomicPtr::new(core::ptr::null_mut());

/// Stores DTrace's functions, which the companion passes.
///
/// # Safety
/// `functions` are DTrace's, and stay as long as any provider is registered.
pub(super) unsafe fn hand_over(functions: *const Functions) {
    FUNCTIONS.store(functions.cast_mut(), Ordering::Release);
}

/// illumos's DTrace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Illumos;

// SAFETY: the functions are DTrace's, and interrupts are off between the two calls.
unsafe impl Kernel for Illumos {
    #[inline(always)]
    fn functions(&self) -> &'static Functions {
        // SAFETY: `hand_over` is called before every call through this binding, and by its contract the functions stay.
        unsafe { &*FUNCTIONS.load(Ordering::Acquire) }
    }

    #[inline(always)]
    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        let were = cpu::interrupts_off();
        let result = f();
        cpu::interrupts_restore(were);
        result
    }
}
