//! Switching the machine off.

use super::{layout, machine};

/// The reason for which the kernel ends, which determines QEMU's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The host requested power-off: status 0.
    Success,
    /// Panic: status 35.
    Failure,
}

/// The command "fail" of SiFive's test device. The upper half of the written word is the exit status.
const TEST_FAIL: u32 = 0x3333;
const FAILURE_STATUS: u32 = 35;

/// Ends QEMU. Any context.
pub(crate) fn off(exit: Exit) -> ! {
    match exit {
        // Returns only if SBI cannot shut the machine down.
        Exit::Success => _ = sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::NoReason),
        Exit::Failure => {
            // OpenSBI uses the same device, but does not give a status.
            if let Some(test) = machine::known().and_then(|machine| machine.test) {
                let register = layout::direct(test as u64) as *mut u32;
                // SAFETY: the device's register, mapped by the direct map.
                unsafe { register.write_volatile(FAILURE_STATUS << 16 | TEST_FAIL) };
            }
            _ = sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::SystemFailure);
        }
    }
    super::cpu::halt()
}
