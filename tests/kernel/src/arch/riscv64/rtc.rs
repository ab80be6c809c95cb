//! The time of day: the Goldfish clock of QEMU's `virt` machine.

use super::{machine, paging};

/// Nanoseconds since 1970, while no other CPU reads; 0 where there is no such clock.
pub(crate) fn now_ns() -> u64 {
    let Some(registers) = machine::known().and_then(|machine| machine.rtc) else { return 0 };
    let low = paging::direct(registers as u64) as *const u32;
    // SAFETY: the device's registers, mapped by the direct map. Reading the lower half keeps the upper one for the next read.
    let [low, high] = unsafe { [low.read_volatile(), low.add(1).read_volatile()] };
    u64::from(high) << 32 | u64::from(low)
}
