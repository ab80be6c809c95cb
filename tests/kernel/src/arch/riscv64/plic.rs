//! The platform-level interrupt controller: the serial line's interrupt, to the CPU that boots.
//!
//! The RISC-V PLIC specification, version 1.0.0.

use core::sync::atomic::{AtomicU32, Ordering};

use super::{layout, machine};

/// Interrupt that has been claimed and not completed; 0 for none.
static CLAIMED: AtomicU32 = AtomicU32::new(0);

const ENABLE: usize = 0x2000;
const ENABLE_STRIDE: usize = 0x80;
const CONTEXT: usize = 0x20_0000;
const CONTEXT_STRIDE: usize = 0x1000;

fn register(offset: usize) -> *mut u32 {
    layout::direct((machine::get().plic + offset) as u64) as *mut u32
}

fn threshold() -> *mut u32 {
    register(CONTEXT + machine::get().plic_context * CONTEXT_STRIDE)
}

fn claim_and_complete() -> *mut u32 {
    threshold().wrapping_add(1)
}

/// Sends the serial line's interrupt to the hart that boots.
pub(crate) fn init() {
    let machine = machine::get();
    let interrupt = machine.uart_interrupt;
    let context = ENABLE + machine.plic_context * ENABLE_STRIDE;
    // SAFETY: the PLIC's registers, mapped by the direct map: the interrupt's priority, its enable bit for
    // the context, and the context's threshold.
    unsafe {
        register(4 * interrupt).write_volatile(1);
        register(context + 4 * (interrupt / 32)).write_volatile(1 << (interrupt % 32));
        threshold().write_volatile(0);
    }
}

/// Claims the pending interrupt; until [`complete`] it is not raised again.
pub(crate) fn claim() {
    // SAFETY: `claim_and_complete` is a register of the PLIC, mapped by the direct map. Reading it claims an interrupt.
    let interrupt = unsafe { claim_and_complete().read_volatile() };
    if interrupt != 0 {
        CLAIMED.store(interrupt, Ordering::Release);
    }
}

/// Completes the claimed interrupt. The PLIC raises it again at once if its cause still exists.
pub(crate) fn complete() {
    let interrupt = CLAIMED.swap(0, Ordering::AcqRel);
    if interrupt != 0 {
        // SAFETY: `claim_and_complete` is a register of the PLIC, and `claim` has claimed the interrupt.
        unsafe { claim_and_complete().write_volatile(interrupt) };
    }
}
