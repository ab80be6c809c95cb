//! Switching the machine off.

use x86_64::instructions::port::Port;

/// The end of the kernel, for QEMU's exit status: `(value << 1) | 1`.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Asked to power off: status 33.
    Success = 0x10,
    /// Panic: status 35.
    Failure = 0x11,
}

/// The `isa-debug-exit` device's port, as the command line places it.
const DEBUG_EXIT: u16 = 0xf4;

/// Ends QEMU. Any context.
pub(crate) fn off(exit: Exit) -> ! {
    // SAFETY: the port ends the virtual machine, or does nothing where the device is missing.
    unsafe { Port::<u8>::new(DEBUG_EXIT).write(exit as u8) };
    super::cpu::halt()
}
