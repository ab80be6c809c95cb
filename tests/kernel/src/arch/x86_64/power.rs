//! Switching the machine off.

use x86_64::instructions::port::Port;

/// The reason for which the kernel ends. QEMU's exit status is `(value << 1) | 1`.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The host requested power-off: status 33.
    Success = 0x10,
    /// Panic: status 35.
    Failure = 0x11,
}

/// The port of the `isa-debug-exit` device, as set on QEMU's command line.
const DEBUG_EXIT: u16 = 0xf4;

/// Ends QEMU. Any context.
pub(crate) fn off(exit: Exit) -> ! {
    // SAFETY: the port ends the virtual machine, or does nothing where the device is missing.
    unsafe { Port::<u8>::new(DEBUG_EXIT).write(exit as u8) };
    super::cpu::halt()
}
