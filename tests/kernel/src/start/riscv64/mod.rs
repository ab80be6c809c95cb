//! Starts the kernel on QEMU's `virt` machine, after OpenSBI.

mod boot;
mod harts;

use core::arch::naked_asm;

use stand_in_base::image::PAGE;

use crate::arch::{cpu, plic, timer};
use crate::{paging, traps};

/// The address of the stacks. There is an unmapped page below each stack. All other stacks (boot and emergency) are at higher
/// addresses.
const STACK_SPACE: u64 = 0xffff_ffc0_0000_0000;
const STACK_PAGES: usize = 32;

/// The stack of a hart.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// The lowest address of the stack.
    bottom: u64,
    /// The first address after the stack.
    top: u64,
}

impl Stack {
    /// Maps the stack of a CPU.
    ///
    /// # Panics
    /// If there is not enough memory.
    fn new(number: usize) -> Self {
        let slot = ((STACK_PAGES + 1) * PAGE) as u64;
        let bottom = STACK_SPACE + number as u64 * slot + PAGE as u64;
        paging::map(bottom, STACK_PAGES).expect("no memory for a stack");
        Self { bottom, top: bottom + (STACK_PAGES * PAGE) as u64 }
    }
}

/// Initialises the first CPU and the page tables, and calls `main` on a new stack with a guard page. The heap has been
/// initialised.
pub(super) fn init_first(main: extern "C" fn() -> !) -> ! {
    paging::init();
    let stack = Stack::new(0);
    cpu::init(0, stack.bottom);
    traps::init();
    // SAFETY: the stack is new, and no code uses the old stack afterwards, because `main` does not return.
    unsafe { switch_stack(stack.top, main) }
}

/// # Safety
/// `top` is the top of an unused stack.
#[unsafe(naked)]
unsafe extern "C" fn switch_stack(top: u64, main: extern "C" fn() -> !) -> ! {
    naked_asm!("mv sp, a0", "li s0, 0", "li ra, 0", "jr a1")
}

/// Starts the timer, the serial line's interrupt and the other CPUs. The boot code has read the device tree. Returns the number
/// of CPUs. Interrupts are still off on this CPU.
///
/// # Panics
/// If a CPU does not start.
pub(super) fn init_machine(_device_tree: u64) -> usize {
    timer::start();
    plic::init();
    harts::start_others()
}
