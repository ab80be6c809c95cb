//! Panics: stops all CPUs, sends the message to the host, and powers the machine off.

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

/// Stops all CPUs, sends `reason` to the host, and powers the machine off.
pub(crate) fn stop(reason: fmt::Arguments<'_>) -> ! {
    cpu::interrupts_off();
    if PANICKED.swap(true, Ordering::AcqRel) {
        // Another CPU has panicked before, or the code below has panicked. Only the first message is sent.
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
