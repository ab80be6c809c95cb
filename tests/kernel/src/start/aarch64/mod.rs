//! Starts QEMU's `virt`, as it starts an ELF file.

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

/// Address of the stacks, each in the upper half of its slot with nothing mapped in the lower half, which
/// [`STACK_BIT`] tells apart.
const STACK_SPACE: u64 = 0xffff_0000_8000_0000;
const STACK_PAGES: usize = 32;
const_assert_eq!((STACK_PAGES * PAGE).trailing_zeros(), STACK_BIT);

/// Stops using the boot tables of the lower half on the CPU that runs this, which uses the kernel's tables for the upper half.
fn leave_lower_half() {
    TCR_EL1.modify(TCR_EL1::EPD0::DisableTTBR0Walks);
    isb(SY);
    Format::flush_tlb(None);
}

/// Maps the stack of a CPU and returns its top.
///
/// # Panics
/// When memory is out.
fn new_stack(number: usize) -> u64 {
    let size = (STACK_PAGES * PAGE) as u64;
    let bottom = STACK_SPACE + number as u64 * 2 * size + size;
    paging::map(bottom, STACK_PAGES).expect("no memory for a stack");
    bottom + size
}

/// Sets up the first CPU and its memory, and goes on in `main` on a stack with nothing mapped below it.
/// The heap is ready.
pub(super) fn init_first(main: extern "C" fn() -> !) -> ! {
    paging::init();
    let stack = new_stack(0);
    // SAFETY: a fresh stack; nothing on the old one is used again.
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

/// Finds the interrupt controller and the CPUs, starts the timer and the other CPUs. Returns how many
/// CPUs there are. Interrupts are still off on this one.
///
/// # Panics
/// When the machine is not as expected or a CPU does not start.
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
