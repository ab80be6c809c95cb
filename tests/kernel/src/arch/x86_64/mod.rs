//! x86_64: everything the rest of the kernel asks of the machine.

mod acpi;
mod ap;
mod apic;
mod boot;
pub(crate) mod cpu;
pub(crate) mod exports;
pub(crate) mod layout;
pub(crate) mod power;
pub(crate) mod text;
pub(crate) mod timer;
pub(crate) mod traps;
pub(crate) mod uart;

use core::arch::naked_asm;

use stand_in_base::image::PAGE;
use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::PhysFrame;

use crate::arch::paging;

pub(crate) use apic::{send_rendezvous, stop_others, wake_others};
pub(crate) use traps::TrapFrame;

/// This architecture, as the host's `--arch` names it.
pub(crate) const NAME: &str = "x86_64";

/// Addresses for module images: the second GiB of the kernel's part of the address space.
pub(crate) const MODULE_SPACE: core::ops::Range<u64> = 0xffff_ffff_c000_0000..0xffff_ffff_f000_0000;

/// Physical address at which the bench puts the kernel's symbols: 240 MiB into RAM. The heap ends before it.
pub(crate) const SYMBOLS: u64 = 240 << 20;

/// Address of the stacks, each with an unmapped page below it.
const STACK_SPACE: u64 = 0xffff_ffff_a000_0000;
const STACK_PAGES: usize = 32;

/// Switches the CPU that runs this to other page tables.
///
/// # Safety
/// The root table at the physical address `root` maps everything in use.
pub(crate) unsafe fn switch_tables(root: u64) {
    let root = PhysFrame::containing_address(PhysAddr::new(root));
    // SAFETY: the caller guarantees the tables.
    unsafe { Cr3::write(root, Cr3Flags::empty()) };
}

/// Maps the stack of a CPU and returns its top.
///
/// # Panics
/// When memory is out.
fn new_stack(number: usize) -> u64 {
    let slot = ((STACK_PAGES + 1) * PAGE) as u64;
    let bottom = STACK_SPACE + number as u64 * slot + PAGE as u64;
    paging::map(bottom, STACK_PAGES).expect("no memory for a stack");
    bottom + (STACK_PAGES * PAGE) as u64
}

/// Sets up the first CPU and its memory, and goes on in `main` on a stack with a guard page. The heap
/// is ready.
pub(crate) fn init_first(main: extern "C" fn() -> !) -> ! {
    paging::init();
    cpu::init(0);
    traps::init();
    let stack = new_stack(0);
    // SAFETY: a fresh stack; nothing on the old one is used again.
    unsafe { switch_stack(stack, main) }
}

/// # Safety
/// `top` is the top of an unused stack.
#[unsafe(naked)]
unsafe extern "C" fn switch_stack(top: u64, main: extern "C" fn() -> !) -> ! {
    naked_asm!("mov rsp, rdi", "xor ebp, ebp", "call rsi", "ud2")
}

/// Finds the interrupt controllers and the CPUs, calibrates time, starts the timer and the other CPUs.
/// Returns how many CPUs there are. Interrupts are still off on this one.
///
/// # Panics
/// When the firmware's tables are not there or a CPU does not start.
pub(crate) fn init_machine(rsdp: u64) -> usize {
    let controllers = acpi::controllers(rsdp);
    apic::mask_legacy();
    apic::enable();
    timer::calibrate();
    timer::start();
    apic::route_uart(controllers.io_apic);
    let others = ap::others(&controllers.processors);
    ap::start_others(&others)
}
