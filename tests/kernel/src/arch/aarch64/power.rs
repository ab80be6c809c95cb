//! Switching the machine off.

use core::arch::asm;

use smccc::{Hvc, psci};

use super::cpu;

/// The reason for which the kernel ends, which determines QEMU's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The host requested power-off: status 0.
    Success,
    /// Panic: status 35, as on x86_64, if QEMU was started with `-semihosting`; otherwise 0.
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
        // SAFETY: the call ends the virtual machine. If QEMU does not support semihosting, the instruction is undefined, and the
        // trap handler resumes after it.
        unsafe {
            asm!(
                "hlt #0xf000",
                inout("x0") EXIT_EXTENDED => _,
                in("x1") &raw const reason,
                options(nostack),
            );
        }
    }
    // If the call returns, it has failed; then this CPU stops.
    let _ = psci::system_off::<Hvc>();
    cpu::halt()
}
