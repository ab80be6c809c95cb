//! Starts the kernel on QEMU's PC, by the PVH protocol.

mod acpi;
mod ap;
mod boot;

use core::arch::naked_asm;

use stand_in_base::image::PAGE;

use crate::arch::{apic, cpu, timer};
use crate::{paging, traps};

/// Address of the stacks, each with an unmapped page below it.
const STACK_SPACE: u64 = 0xffff_ffff_a000_0000;
const STACK_PAGES: usize = 32;

/// Maps the stack of a CPU and returns its top.
///
/// # Panics
/// If there is not enough memory.
fn new_stack(number: usize) -> u64 {
    let slot = ((STACK_PAGES + 1) * PAGE) as u64;
    let bottom = STACK_SPACE + number as u64 * slot + PAGE as u64;
    paging::map(bottom, STACK_PAGES).expect("no memory for a stack");
    bottom + (STACK_PAGES * PAGE) as u64
}

/// Initialises the first CPU and the page tables, and calls `main` on a new stack with a guard page. The heap has been
/// initialised.
pub(super) fn init_first(main: extern "C" fn() -> !) -> ! {
    paging::init();
    cpu::init(0);
    traps::init();
    let stack = new_stack(0);
    // SAFETY: the stack is new, and no code uses the old stack afterwards, because `main` does not return.
    unsafe { switch_stack(stack, main) }
}

/// # Safety
/// `top` is the top of an unused stack.
#[unsafe(naked)]
unsafe extern "C" fn switch_stack(top: u64, main: extern "C" fn() -> !) -> ! {
    naked_asm!("mov rsp, rdi", "xor ebp, ebp", "call rsi", "ud2")
}

/// Finds the interrupt controllers and the CPUs, calibrates the timers, and starts the timer and the other CPUs. Returns the
/// number of CPUs. Interrupts are still off on this CPU.
///
/// # Panics
/// If a table of the firmware is missing, or a CPU does not start.
pub(super) fn init_machine(rsdp: u64) -> usize {
    let controllers = acpi::controllers(rsdp);
    apic::mask_legacy();
    apic::enable();
    timer::calibrate();
    timer::start();
    apic::route_uart(controllers.io_apic);
    let others = ap::others(&controllers.processors);
    ap::start_others(&others)
}
