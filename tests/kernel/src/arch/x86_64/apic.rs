//! The local APIC (timer, inter-processor interrupts) and the I/O APIC (the serial line).

use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::instructions::port::Port;

use super::traps::{RENDEZVOUS_VECTOR, SPURIOUS_VECTOR, TIMER_VECTOR, UART_VECTOR, WAKE_VECTOR};
use super::{cpu, paging, timer};

/// Where the registers are, in the direct map.
static LOCAL: AtomicU64 = AtomicU64::new(0);

mod register {
    pub(super) const ID: u64 = 0x20;
    pub(super) const EOI: u64 = 0xb0;
    pub(super) const SPURIOUS: u64 = 0xf0;
    pub(super) const COMMAND_LOW: u64 = 0x300;
    pub(super) const COMMAND_HIGH: u64 = 0x310;
    pub(super) const TIMER: u64 = 0x320;
    pub(super) const TIMER_INITIAL: u64 = 0x380;
    pub(super) const TIMER_CURRENT: u64 = 0x390;
    pub(super) const TIMER_DIVIDE: u64 = 0x3e0;
}

const ENABLE: u32 = 1 << 8;
const PERIODIC: u32 = 1 << 17;
const MASKED: u32 = 1 << 16;
const DIVIDE_BY_16: u32 = 3;
const DELIVERY_PENDING: u32 = 1 << 12;
const DELIVER_NMI: u32 = 4 << 8;
const DELIVER_INIT: u32 = 5 << 8;
const DELIVER_STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
const ALL_BUT_SELF: u32 = 3 << 18;

fn read(register: u64) -> u32 {
    let at = LOCAL.load(Ordering::Relaxed) + register;
    // SAFETY: the local APIC's registers, mapped by the direct map.
    unsafe { (at as *const u32).read_volatile() }
}

fn write(register: u64, value: u32) {
    let at = LOCAL.load(Ordering::Relaxed) + register;
    // SAFETY: as in `read`; the values are those the manual gives for the register.
    unsafe { (at as *mut u32).write_volatile(value) };
}

/// Says where the registers are. Once, before anything else here.
pub(super) fn set_base(physical: u64) {
    LOCAL.store(paging::direct(physical), Ordering::Relaxed);
}

/// Masks everything at the two legacy interrupt controllers: the firmware left them on.
pub(super) fn mask_legacy() {
    for port in [0x21, 0xa1] {
        // SAFETY: the mask registers of the two 8259s; nothing uses these.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// Switches this CPU's local APIC on.
pub(super) fn enable() {
    write(register::SPURIOUS, ENABLE | u32::from(SPURIOUS_VECTOR));
}

/// This CPU's number in the interrupt controllers.
pub(super) fn id() -> u8 {
    (read(register::ID) >> 24) as u8
}

/// Ends the interrupt that is being handled.
pub(super) fn end_of_interrupt() {
    write(register::EOI, 0);
}

/// Timer counts in the time that `wait` takes.
pub(super) fn count_during(wait: impl FnOnce()) -> u32 {
    write(register::TIMER_DIVIDE, DIVIDE_BY_16);
    write(register::TIMER, MASKED);
    write(register::TIMER_INITIAL, u32::MAX);
    wait();
    let left = read(register::TIMER_CURRENT);
    write(register::TIMER_INITIAL, 0);
    u32::MAX - left
}

/// Starts this CPU's periodic timer.
pub(super) fn start_timer(period: u32) {
    write(register::TIMER_DIVIDE, DIVIDE_BY_16);
    write(register::TIMER, PERIODIC | u32::from(TIMER_VECTOR));
    write(register::TIMER_INITIAL, period);
}

/// The two halves of the command register belong together: nothing on this CPU may come in between.
fn command(destination: u32, low: u32) {
    let enabled = cpu::interrupts_off();
    while read(register::COMMAND_LOW) & DELIVERY_PENDING != 0 {
        core::hint::spin_loop();
    }
    write(register::COMMAND_HIGH, destination << 24);
    write(register::COMMAND_LOW, low | ASSERT);
    cpu::restore_interrupts(enabled);
}

/// Asks all other CPUs to join the rendezvous.
pub(crate) fn send_rendezvous() {
    command(0, ALL_BUT_SELF | u32::from(RENDEZVOUS_VECTOR));
}

/// Ends the sleep of all other CPUs.
pub(crate) fn wake_others() {
    command(0, ALL_BUT_SELF | u32::from(WAKE_VECTOR));
}

/// Stops all other CPUs, wherever they are; their NMI handler looks at the panic flag.
pub(crate) fn stop_others() {
    command(0, ALL_BUT_SELF | DELIVER_NMI);
}

/// INIT, SIPI, SIPI: starts a CPU in real mode at a page below 1 MiB.
pub(super) fn start_cpu(id: u8, page: u8) {
    command(id.into(), DELIVER_INIT);
    timer::delay_us(10_000);
    for _ in 0..2 {
        command(id.into(), DELIVER_STARTUP | u32::from(page));
        timer::delay_us(200);
    }
}

/// The serial line's pin on the I/O APIC, edge-triggered and active high as ISA interrupts are.
const UART_PIN: u32 = 4;

/// Sends the serial line's interrupt to the CPU that runs this.
pub(super) fn route_uart(io_apic: u64) {
    let select = paging::direct(io_apic) as *mut u32;
    let window = paging::direct(io_apic + 0x10) as *mut u32;
    let entry = 0x10 + 2 * UART_PIN;
    for (register, value) in [(entry + 1, u32::from(id()) << 24), (entry, u32::from(UART_VECTOR))] {
        // SAFETY: the I/O APIC's index and data registers, mapped by the direct map.
        unsafe {
            select.write_volatile(register);
            window.write_volatile(value);
        }
    }
}
