//! The interrupt controller, a GICv3.

use core::ptr::NonNull;

use aarch64_cpu::asm::barrier::{ISHST, SY, dsb, isb};
use arm_gic::gicv3::{GicCpuInterface, GicV3, InterruptGroup, SgiTarget, SgiTargetGroup};
use arm_gic::{IntId, Trigger, UniqueMmioPointer};

use spin::Mutex;

use super::{cpu, layout};

/// The interrupt that asks a CPU to join a rendezvous.
pub(crate) const RENDEZVOUS: IntId = IntId::sgi(0);
/// The interrupt that ends a CPU's sleep.
pub(crate) const WAKE: IntId = IntId::sgi(1);
/// The interrupt that stops a CPU until the machine is reset.
pub(crate) const STOP: IntId = IntId::sgi(2);
/// The virtual timer's interrupt (Arm BSA).
pub(crate) const TIMER: IntId = IntId::ppi(11);
/// The serial line's interrupt on QEMU's `virt`.
pub(crate) const UART: IntId = IntId::spi(1);

/// The priority of all interrupts.
const PRIORITY: u8 = 0x80;
/// The priority mask that masks no interrupt.
const LOWEST: u8 = 0xff;

/// The controller. Only CPUs that are starting and have interrupts off use it.
static GIC: Mutex<Option<GicV3<'static>>> = Mutex::new(None);

/// Initialises the controller, and routes the serial line's interrupt to this CPU. The first CPU calls this function once.
///
/// # Panics
/// If the controller rejects the configuration.
pub(crate) fn init(distributor: u64, redistributors: u64, cpus: usize) {
    let pointer = |physical| NonNull::new(layout::direct(physical) as *mut _);
    let redistributors = NonNull::new(layout::direct(redistributors) as *mut _);
    let (Some(distributor), Some(redistributors)) = (pointer(distributor), redistributors) else {
        panic!("the direct map is at 0");
    };
    // SAFETY: the registers of the GIC are device memory in the direct map, and no other code has
    // pointers to them.
    let mut gic =
        unsafe { GicV3::new(UniqueMmioPointer::new(distributor), redistributors, cpus, false) };
    gic.setup(0);
    // Edge-triggered: the reader of the line reads all bytes that have arrived, so the next byte makes an edge; and an
    // unread byte does not interrupt repeatedly.
    let configured = gic
        .set_trigger(UART, None, Trigger::Edge)
        .and_then(|()| gic.set_interrupt_priority(UART, None, PRIORITY))
        .and_then(|()| gic.distributor().set_routing(UART, Some(cpu::affinity())))
        .and_then(|()| gic.enable_interrupt(UART, None, true));
    configured.unwrap_or_else(|error| panic!("GIC: {error}"));
    *GIC.lock() = Some(gic);
}

/// Enables the controller's interrupts on this CPU, whose number is `cpu`. QEMU's redistributors are in the order of its CPUs.
///
/// # Panics
/// If the controller has no redistributor for the CPU.
pub(crate) fn enable_cpu(cpu: usize) {
    let mut gic = GIC.lock();
    let gic = gic.as_mut().expect("the GIC is set up by the first CPU");
    gic.init_cpu(cpu);
    for interrupt in [RENDEZVOUS, WAKE, STOP, TIMER] {
        gic.set_interrupt_priority(interrupt, Some(cpu), PRIORITY)
            .and_then(|()| gic.enable_interrupt(interrupt, Some(cpu), true))
            .unwrap_or_else(|error| panic!("GIC: {error}"));
    }
    GicCpuInterface::set_priority_mask(LOWEST);
    GicCpuInterface::enable_group1(true);
}

fn send(interrupt: IntId) {
    // Earlier stores must be visible to the interrupted CPUs (Arm ARM, ICC_SGI1R_EL1).
    dsb(ISHST);
    // `SgiTarget::All` means all CPUs except the sender.
    GicCpuInterface::send_sgi(interrupt, SgiTarget::All, SgiTargetGroup::CurrentGroup1)
        .expect("the interrupt is one that software can send");
    // Without the barrier, the CPU might delay the write that sends the interrupt.
    isb(SY);
}

/// Asks all other CPUs to join the rendezvous.
pub(crate) fn send_rendezvous() {
    send(RENDEZVOUS);
}

/// Ends the sleep of all other CPUs.
pub(crate) fn wake_others() {
    send(WAKE);
}

/// Stops all other CPUs, as soon as their interrupts are on.
pub(crate) fn stop_others() {
    send(STOP);
}

/// The group of all interrupts in use.
const GROUP: InterruptGroup = InterruptGroup::Group1;

/// Returns the next pending interrupt and marks it as being handled, until [`end`].
pub(crate) fn acknowledge() -> Option<IntId> {
    GicCpuInterface::get_and_acknowledge_interrupt(GROUP)
}

/// Ends an interrupt that [`acknowledge`] returned.
pub(crate) fn end(interrupt: IntId) {
    GicCpuInterface::end_interrupt(interrupt, GROUP);
}
