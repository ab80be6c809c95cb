//! The end: a panic stops all CPUs, tells the host, and powers off.

use alloc::format;
use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use sdt_protocol::Event;

use crate::arch::power::{self, Exit};
use crate::arch::{self, cpu};
use crate::{smp, wire};

static PANICKED: AtomicBool = AtomicBool::new(false);

/// Returns whether a CPU has panicked. Any context.
pub(crate) fn panicked() -> bool {
    PANICKED.load(Ordering::Acquire)
}

/// Stops everything, for the reason given.
pub(crate) fn stop(reason: fmt::Arguments<'_>) -> ! {
    cpu::interrupts_off();
    if PANICKED.swap(true, Ordering::AcqRel) {
        // Another CPU got here first, or the code below has failed; the first message is the one that
        // matters.
        if smp::online() == 1 {
            power::off(Exit::Failure);
        }
        cpu::halt();
    }
    if smp::online() > 1 {
        arch::stop_others();
    }
    wire::send_last(&Event::Panic { message: format!("{reason}") });
    power::off(Exit::Failure)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    match info.location() {
        Some(at) => stop(format_args!("{} ({}:{})", info.message(), at.file(), at.line())),
        None => stop(format_args!("{}", info.message())),
    }
}
