//! aarch64: everything the rest of the kernel asks of the machine, which is QEMU's `virt` with a GICv3.

mod boot;
pub(crate) mod cpu;
mod devicetree;
pub(crate) mod exports;
mod gic;
pub(crate) mod layout;
mod other_cpus;
pub(crate) mod power;
pub(crate) mod text;
pub(crate) mod timer;
mod traps;
pub(crate) mod uart;

use core::arch::naked_asm;

use stand_in_base::image::PAGE;

use crate::arch::paging;
pub(crate) use boot::switch_tables;
pub(crate) use gic::{send_rendezvous, stop_others, wake_others};
pub(crate) use traps::TrapFrame;

/// This architecture, as the host's `--arch` names it.
pub(crate) const NAME: &str = "aarch64";

/// Addresses for module images: at most 128 MiB from the kernel, so that a branch instruction reaches it.
pub(crate) const MODULE_SPACE: core::ops::Range<u64> = 0xffff_0000_4100_0000..0xffff_0000_4800_0000;

/// Physical address at which the bench puts the kernel's symbols: 240 MiB into RAM. The heap ends before it.
pub(crate) const SYMBOLS: u64 = layout::DEVICES + (240 << 20);

/// Address of the stacks, each in the upper half of its slot with nothing mapped in the lower half. So an
/// address in a stack has bit [`STACK_BIT`], and one below it does not.
const STACK_SPACE: u64 = 0xffff_0000_8000_0000;
const STACK_PAGES: usize = 32;
/// See [`STACK_SPACE`].
const STACK_BIT: u32 = (STACK_PAGES * PAGE).trailing_zeros();

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
pub(crate) fn init_first(main: extern "C" fn() -> !) -> ! {
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
    boot::leave_lower_half();
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
pub(crate) fn init_machine(device_tree: u64) -> usize {
    let mut machine = devicetree::machine(device_tree);
    gic::init(machine.distributor, machine.redistributors, machine.cpus.len());
    gic::enable_cpu(0);
    timer::start();
    let own = cpu::affinity();
    assert_eq!(machine.cpus.first(), Some(&own), "the first CPU is not the one that starts");
    machine.cpus.truncate(cpu::MAX_CPUS);
    other_cpus::start(&machine.cpus[1..])
}
