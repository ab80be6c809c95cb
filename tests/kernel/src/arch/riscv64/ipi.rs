//! Interrupting the other CPUs: SBI's IPI extension, which makes their software interrupt pending.

use sbi_rt::HartMask;

use super::{cpu, machine};

/// Returns the harts of all CPUs except this one. All CPUs must be online.
fn others() -> HartMask {
    let own = cpu::current();
    let harts = machine::get().harts().iter().enumerate();
    let mask =
        harts.filter(|&(number, _)| number != own).fold(0, |mask, (_, &hart)| mask | 1 << hart);
    HartMask::from_mask_base(mask, 0)
}

fn send() {
    let result = sbi_rt::send_ipi(others());
    assert!(result.is_ok(), "SBI does not send an IPI: {:?}", result.err());
}

/// Asks all other CPUs to join the rendezvous.
pub(crate) fn send_rendezvous() {
    send();
}

/// Ends the sleep of all other CPUs.
pub(crate) fn wake_others() {
    send();
}

/// Stops all other CPUs, which check the panic flag when they are interrupted. RISC-V has no non-maskable interrupts,
/// so a CPU with interrupts off continues until it enables them; none of that code uses the line to the host.
pub(crate) fn stop_others() {
    // If SBI fails, the panic continues anyway.
    let _ = sbi_rt::send_ipi(others());
}
