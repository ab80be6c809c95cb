//! Starts the kernel on QEMU's `virt` machine, which has loaded it as an ELF file.

mod boot;
mod devicetree;
mod other_cpus;

use core::arch::naked_asm;

use aarch64_cpu::asm::barrier::{SY, isb};
use aarch64_cpu::registers::{ReadWriteable as _, TCR_EL1};
use page_table_multiarch::PagingMetaData as _;
use stand_in_base::image::PAGE;
use static_assertions::const_assert_eq;

use crate::arch::layout::Format;
use crate::arch::{STACK_BIT, cpu, gic, timer};
use crate::{paging, traps};

/// The address of the stacks. Each stack is the upper half of a slot, whose lower half is not mapped. [`STACK_BIT`] of an address
/// distinguishes the two halves.
const STACK_SPACE: u64 = 0xffff_0000_8000_0000;
const STACK_PAGES: usize = 32;
const_assert_eq!((STACK_PAGES * PAGE).trailing_zeros(), STACK_BIT);

/// Makes this CPU stop using the boot tables for the lower half. It already uses the kernel's tables for the upper half.
fn leave_lower_half() {
    TCR_EL1.modify(TCR_EL1::EPD0::DisableTTBR0Walks);
    isb(SY);
    Format::flush_tlb(None);
}

/// Maps the stack of a CPU and returns its top.
///
/// # Panics
/// If there is not enough memory.
fn new_stack(number: usize) -> u64 {
    let size = (STACK_PAGES * PAGE) as u64;
    let bottom = STACK_SPACE + number as u64 * 2 * size + size;
    paging::map(bottom, STACK_PAGES).expect("no memory for a stack");
    bottom + size
}

/// Initialises the first CPU and the page tables, and calls `main` on a new stack with a guard page. The heap has been
/// initialised.
pub(super) fn init_first(main: extern "C" fn() -> !) -> ! {
    paging::init();
    let stack = new_stack(0);
    // SAFETY: the stack is new, and no code uses the old stack afterwards, because `main` does not return.
    unsafe { switch_stack(stack, main) }
}

/// # Safety
/// `top` is the top of an unused stack.
#[unsafe(naked)]
unsafe extern "C" fn switch_stack(top: u64, main: extern "C" fn() -> !) -> ! {
    naked_asm!("mov sp, x0", "mov x29, xzr", "mov x0, x1", "bl {}", "brk #1", sym on_own_stack)
}

extern "C" fn on_own_stack(main: extern "C" fn() -> !) -> ! {
    leave_lower_half();
    cpu::init(0);
    traps::init();
    timer::init();
    main()
}

/// Finds the interrupt controller and the CPUs, and starts the timer and the other CPUs. Returns the number of CPUs. Interrupts
/// are still off on this CPU.
///
/// # Panics
/// If the machine is not supported, or a CPU does not start.
pub(super) fn init_machine(device_tree: u64) -> usize {
    let mut machine = devicetree::machine(device_tree);
    gic::init(machine.distributor, machine.redistributors, machine.cpus.len());
    gic::enable_cpu(0);
    timer::start();
    let own = cpu::affinity();
    assert_eq!(machine.cpus.first(), Some(&own), "the first CPU is not the one that starts");
    machine.cpus.truncate(cpu::MAX_CPUS);
    other_cpus::start(&machine.cpus[1..])
}
