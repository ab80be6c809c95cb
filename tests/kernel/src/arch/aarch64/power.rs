//! Switching the machine off.

use core::arch::asm;

use smccc::{Hvc, psci};

use super::cpu;

/// The end of the kernel, for QEMU's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Asked to power off: status 0.
    Success,
    /// Panic: status 35, as on x86_64, where QEMU runs with `-semihosting`; 0 where it does not.
    Failure,
}

/// QEMU's status after [`Exit::Failure`].
const FAILURE: u64 = 35;
/// `SYS_EXIT_EXTENDED` of Arm's semihosting interface.
const EXIT_EXTENDED: u64 = 0x20;
/// `ADP_Stopped_ApplicationExit`.
const APPLICATION_EXIT: u64 = 0x2_0026;
/// The instruction of a semihosting call.
pub(crate) const SEMIHOSTING: u32 = 0xd45e_0000;

/// Ends QEMU. Any context.
pub(crate) fn off(exit: Exit) -> ! {
    if exit == Exit::Failure {
        let reason = [APPLICATION_EXIT, FAILURE];
        // SAFETY: the call ends the virtual machine. Where QEMU does not offer it, the instruction is
        // undefined: the trap handler goes on behind it.
        unsafe {
            asm!(
                "hlt #0xf000",
                inout("x0") EXIT_EXTENDED => _,
                in("x1") &raw const reason,
                options(nostack),
            );
        }
    }
    // If that returns there is nothing left to try.
    let _ = psci::system_off::<Hvc>();
    cpu::halt()
}
