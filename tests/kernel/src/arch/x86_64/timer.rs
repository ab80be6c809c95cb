//! Time: the TSC, calibrated against the PIT, and the periodic interrupt.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use x86_64::instructions::port::Port;

use super::apic;

/// Timer interrupts a second, on each CPU.
const TICK_HZ: u64 = 250;
/// The PIT's frequency.
const PIT_HZ: u64 = 1_193_182;
/// Time that calibration measures.
const CALIBRATION_US: u64 = 20_000;

/// TSC at boot.
static START: AtomicU64 = AtomicU64::new(0);
/// TSC counts a second.
static FREQUENCY: AtomicU64 = AtomicU64::new(0);
/// Local APIC timer counts from tick to tick.
static TICK_PERIOD: AtomicU32 = AtomicU32::new(0);

/// Returns the counter (TSC), which is synchronous on all CPUs.
fn counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction and ring 0 may use it.
    unsafe { _rdtsc() }
}

/// Waits for `CALIBRATION_US`, measured by channel 2 of the PIT.
fn pit_wait() {
    let mut gate = Port::<u8>::new(0x61);
    let mut command = Port::<u8>::new(0x43);
    let mut channel = Port::<u8>::new(0x42);
    let count = PIT_HZ * CALIBRATION_US / 1_000_000;
    // SAFETY: only this function uses the PIT and its gate. Channel 2 drives only the speaker, and clearing bit 1 of the gate
    // register disables the speaker.
    unsafe {
        let quiet = gate.read() & !3;
        gate.write(quiet);
        command.write(0b1011_0000);
        channel.write(count as u8);
        channel.write((count >> 8) as u8);
        gate.write(quiet | 1);
        while gate.read() & 0x20 == 0 {
            core::hint::spin_loop();
        }
        gate.write(quiet);
    }
}

/// Measures the frequency of the TSC and of the local APIC's timer. The first CPU calls this function once.
pub(crate) fn calibrate() {
    let mut counts = 0;
    let ticks = apic::count_during(|| {
        let before = counter();
        pit_wait();
        counts = counter() - before;
    });
    FREQUENCY.store(counts * 1_000_000 / CALIBRATION_US, Ordering::Relaxed);
    let period = u64::from(ticks) * 1_000_000 / CALIBRATION_US / TICK_HZ;
    TICK_PERIOD.store(period.max(1) as u32, Ordering::Relaxed);
    START.store(counter(), Ordering::Relaxed);
}

/// Starts this CPU's ticks.
pub(crate) fn start() {
    apic::start_timer(TICK_PERIOD.load(Ordering::Relaxed));
}

/// Nanoseconds since boot. Probe context; valid after calibration.
pub(crate) fn now_ns() -> u64 {
    let counts = counter().saturating_sub(START.load(Ordering::Relaxed));
    let frequency = FREQUENCY.load(Ordering::Relaxed).max(1);
    (u128::from(counts) * 1_000_000_000 / u128::from(frequency)) as u64
}

/// Spins for a time.
pub(crate) fn delay_us(microseconds: u64) {
    let until = now_ns() + microseconds * 1000;
    while now_ns() < until {
        core::hint::spin_loop();
    }
}
