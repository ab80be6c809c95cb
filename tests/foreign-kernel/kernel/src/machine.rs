//! The machine: interrupts, CPUs, the clock. The crates are those that kernels for PCs use.

use core::sync::atomic::{AtomicUsize, Ordering};

use spin::Once;
use x2apic::lapic::{IpiAllShorthand, LocalApic, LocalApicBuilder, TimerDivide, xapic_base};
use x86_64::instructions::{interrupts, port::PortWriteOnly};
use x86_64::registers::model_specific::GsBase;
use x86_64::{VirtAddr, structures::idt::InterruptDescriptorTable};

use crate::{boot, tracing};

/// The number of CPUs.
pub const CPUS: usize = 2;

const TIMER: u8 = 32;
const CALL: u8 = 33;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// The number of the CPU that runs this.
pub fn cpu() -> usize {
    GsBase::read().as_u64() as usize
}

/// The clock, in cycles of the timestamp counter: QEMU's has a GHz.
pub fn now() -> u64 {
    // SAFETY: every 64-bit CPU has a timestamp counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Sets up the CPU that runs this, and has its clock tick.
pub fn start(cpu: usize) {
    static IDT: Once<InterruptDescriptorTable> = Once::new();
    GsBase::write(VirtAddr::new(cpu as u64));
    IDT.call_once(handlers).load();
    // SAFETY: the APIC's interrupts have handlers; those of the old controller, which have none, are masked.
    unsafe {
        PortWriteOnly::new(0x21).write(0xff_u8);
        apic().enable();
    }
    interrupts::enable();
    STARTED.fetch_add(1, Ordering::Release);
}

/// Starts the other CPUs, and waits until they have come up.
pub fn start_others() {
    let page = boot::place_start();
    // SAFETY: the other CPUs have executed nothing yet, and their start code is in place. They get the signal twice, 10 ms apart.
    unsafe {
        apic().send_init_ipi_all();
        let then = now() + 10_000_000;
        while now() < then {}
        apic().send_sipi_all(page);
    }
    while STARTED.load(Ordering::Acquire) < CPUS {
        core::hint::spin_loop();
    }
}

/// Interrupts all other CPUs, which then call `TRACING.called`.
pub fn call_others() {
    // SAFETY: that interrupt has a handler.
    unsafe { apic().send_ipi_all(CALL, IpiAllShorthand::AllExcludingSelf) };
}

/// This CPU's interrupt controller.
fn apic() -> LocalApic {
    let mut apic = LocalApicBuilder::new();
    apic.timer_vector(TIMER.into()).error_vector(34).spurious_vector(63);
    apic.timer_divide(TimerDivide::Div16).timer_initial(625_000);
    // SAFETY: boot.rs has mapped the registers at this address.
    apic.set_xapic_base(unsafe { xapic_base() });
    apic.build().expect("nothing is left out")
}

fn handlers() -> InterruptDescriptorTable {
    let mut idt = InterruptDescriptorTable::new();
    let address = VirtAddr::from_ptr::<()>;
    // SAFETY: these are entries of interrupts, and `fault` does not return.
    unsafe {
        idt.page_fault.set_handler_addr(address(fault as *const ()));
        idt.breakpoint.set_handler_addr(address(tracing::breakpoint as *const ()));
        idt[TIMER].set_handler_addr(address(on_interrupt::<TIMER> as *const ()));
        idt[CALL].set_handler_addr(address(on_interrupt::<CALL> as *const ()));
    }
    idt
}

/// The entry of an interrupt: saves what a function does not keep.
#[unsafe(naked)]
extern "C" fn on_interrupt<const VECTOR: u8>() {
    core::arch::naked_asm!(
        "push rax; push rcx; push rdx; push rsi; push rdi; push r8; push r9; push r10; push r11",
        "cld; mov edi, {vector}; mov rsi, [rsp + 9 * 8]; call {interrupted}",
        "pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi; pop rdx; pop rcx; pop rax; iretq",
        vector = const VECTOR,
        interrupted = sym interrupted,
    )
}

extern "C" fn interrupted(vector: u8, pc: u64) {
    match vector {
        TIMER => crate::on_tick(pc),
        _ => tracing::TRACING.called(),
    }
    // SAFETY: one is being handled.
    unsafe { apic().end_of_interrupt() };
}

/// Handles exceptions, which this kernel does not expect.
pub extern "C" fn fault() -> ! {
    panic!("a fault on CPU {}", cpu())
}
