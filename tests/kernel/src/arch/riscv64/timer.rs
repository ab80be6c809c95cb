//! Time: the time CSR, which is synchronous on all harts, and the periodic interrupt, which SBI's timer provides.

use riscv::register::{sie, time};
use spin::Once;

use super::machine;

/// Timer interrupts a second, on each CPU.
const TICK_HZ: u64 = 250;

/// The counter at boot.
static START: Once<u64> = Once::new();

fn counter() -> u64 {
    time::read64()
}

/// Programs this CPU's next timer interrupt.
pub(crate) fn arm() {
    let period = machine::get().timebase / TICK_HZ;
    let armed = sbi_rt::set_timer(counter() + period);
    assert!(armed.is_ok(), "SBI has no timer: {:?}", armed.err());
}

/// Starts this CPU's ticks.
pub(crate) fn start() {
    START.call_once(counter);
    arm();
    // SAFETY: the trap vector takes the interrupt.
    unsafe { sie::set_stimer() };
}

/// Nanoseconds since boot. Probe context; valid after [`start`].
pub(crate) fn now_ns() -> u64 {
    let counts = counter().saturating_sub(START.get().copied().unwrap_or(0));
    let frequency = machine::known().map_or(1, |machine| machine.timebase).max(1);
    (u128::from(counts) * 1_000_000_000 / u128::from(frequency)) as u64
}
