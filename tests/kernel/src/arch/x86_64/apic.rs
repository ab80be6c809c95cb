//! The local APIC (timer, inter-processor interrupts) and the I/O APIC (the serial line).

use core::arch::x86_64::__cpuid;

use x2apic::ioapic::{IoApic, RedirectionTableEntry};
use x2apic::lapic::{
    IpiAllShorthand, LocalApic, LocalApicBuilder, TimerDivide, TimerMode, xapic_base,
};
use x86_64::instructions::port::Port;

use super::{cpu, layout, timer};

/// The timer's interrupt.
pub(crate) const TIMER_VECTOR: u8 = 32;
/// The interrupt that asks a CPU to join a rendezvous.
pub(crate) const RENDEZVOUS_VECTOR: u8 = 33;
/// The interrupt that ends a CPU's sleep.
pub(crate) const WAKE_VECTOR: u8 = 34;
/// The serial line's interrupt.
pub(crate) const UART_VECTOR: u8 = 35;
/// The local APIC's own errors.
pub(crate) const ERROR_VECTOR: u8 = 62;
/// The spurious interrupt, which the local APIC raises when a pending interrupt has been withdrawn. Its handler sends no EOI.
pub(crate) const SPURIOUS_VECTOR: u8 = 63;

/// The serial line's pin on the I/O APIC, edge-triggered and active high as ISA interrupts are.
const UART_PIN: u8 = 4;

/// Masks all interrupts of the two legacy interrupt controllers, which the firmware has enabled.
pub(crate) fn mask_legacy() {
    for port in [0x21, 0xa1] {
        // SAFETY: the mask registers of the two 8259s, which nothing else uses.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// Returns the local APIC of the CPU that runs this.
fn local() -> LocalApic {
    let mut builder = LocalApicBuilder::new();
    builder.timer_vector(TIMER_VECTOR.into()).error_vector(ERROR_VECTOR.into());
    builder.spurious_vector(SPURIOUS_VECTOR.into());
    builder.timer_mode(TimerMode::Periodic).timer_divide(TimerDivide::Div16).timer_initial(0);
    // SAFETY: every x86-64 CPU has the APIC base register.
    builder.set_xapic_base(layout::direct(unsafe { xapic_base() }));
    builder.build().expect("every required field is set")
}

/// Runs `send` with interrupts off, after the previous inter-processor interrupt has been sent. A command may consist of two
/// register writes, which must not be interrupted.
fn send(send: impl FnOnce(&mut LocalApic)) {
    let enabled = cpu::interrupts_off();
    let mut local = local();
    // SAFETY: reading the status changes nothing.
    while unsafe { local.get_ipi_delivery_status() } {
        core::hint::spin_loop();
    }
    send(&mut local);
    cpu::restore_interrupts(enabled);
}

/// Switches this CPU's local APIC on, with the timer stopped.
pub(crate) fn enable() {
    // SAFETY: `traps` has handlers for the vectors in use.
    unsafe { local().enable() };
}

/// Returns this CPU's number in the interrupt controllers.
pub(crate) fn id() -> u8 {
    // SAFETY: reading the register changes nothing.
    let register = unsafe { local().id() };
    (if has_x2apic() { register } else { register >> 24 }) as u8
}

/// Returns whether the CPUs have x2APIC. If so, the crate `x2apic` uses it, and ids have a different position in the registers.
fn has_x2apic() -> bool {
    __cpuid(1).ecx & 1 << 21 != 0
}

/// Ends the interrupt that is being handled.
pub(crate) fn end_of_interrupt() {
    // SAFETY: called once by the handler of an interrupt of this CPU.
    unsafe { local().end_of_interrupt() };
}

/// Runs `wait` and returns the number of timer counts during it.
pub(crate) fn count_during(wait: impl FnOnce()) -> u32 {
    let mut local = local();
    // SAFETY: the timer is stopped before and afterwards, and takes longer than `wait` to count down.
    unsafe {
        local.set_timer_initial(u32::MAX);
        wait();
        let left = local.timer_current();
        local.set_timer_initial(0);
        u32::MAX - left
    }
}

/// Starts this CPU's periodic timer.
pub(crate) fn start_timer(period: u32) {
    // SAFETY: `traps` has a handler for the timer's vector.
    unsafe { local().set_timer_initial(period) };
}

/// Asks all other CPUs to join the rendezvous.
pub(crate) fn send_rendezvous() {
    // SAFETY: `traps` has a handler for the vector.
    send(|local| unsafe {
        local.send_ipi_all(RENDEZVOUS_VECTOR, IpiAllShorthand::AllExcludingSelf)
    });
}

/// Ends the sleep of all other CPUs.
pub(crate) fn wake_others() {
    // SAFETY: `traps` has a handler for the vector.
    send(|local| unsafe { local.send_ipi_all(WAKE_VECTOR, IpiAllShorthand::AllExcludingSelf) });
}

/// Stops all other CPUs, in whatever context they are: their NMI handler checks the panic flag.
pub(crate) fn stop_others() {
    // SAFETY: `traps` has a handler for NMIs, with a stack of its own.
    send(|local| unsafe { local.send_nmi_all(IpiAllShorthand::AllExcludingSelf) });
}

/// Starts a CPU in real mode at a page below 1 MiB: INIT, SIPI, SIPI.
pub(crate) fn start_cpu(id: u8, page: u8) {
    let destination = if has_x2apic() { id.into() } else { u32::from(id) << 24 };
    // SAFETY: the CPU has run nothing yet, and the start code is in the page.
    send(|local| unsafe { local.send_init_ipi(destination) });
    timer::delay_us(10_000);
    for _ in 0..2 {
        // SAFETY: the CPU has run nothing yet, and the start code is in the page.
        send(|local| unsafe { local.send_sipi(page, destination) });
        timer::delay_us(200);
    }
}

/// Sends the serial line's interrupt to the CPU that runs this.
pub(crate) fn route_uart(io_apic: u64) {
    let mut entry = RedirectionTableEntry::default();
    entry.set_vector(UART_VECTOR);
    entry.set_dest(id());
    // SAFETY: the direct map maps the I/O APIC's registers, and only this function uses them. `traps` has a handler for the
    // vector.
    unsafe { IoApic::new(layout::direct(io_apic)).set_table_entry(UART_PIN, entry) };
}
