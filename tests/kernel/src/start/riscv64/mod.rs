//! Starts QEMU's `virt`, which OpenSBI has started before.

mod boot;
mod harts;

use core::arch::naked_asm;

use stand_in_base::image::PAGE;

use crate::arch::{cpu, plic, timer};
use crate::{paging, traps};

/// Address of the stacks, each with an unmapped page below it. They are below everything else that a stack pointer may point to.
const STACK_SPACE: u64 = 0xffff_ffc0_0000_0000;
const STACK_PAGES: usize = 32;

/// The stack of a hart.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// Lowest address.
    bottom: u64,
    /// First address behind it.
    top: u64,
}

impl Stack {
    /// Maps the stack of a CPU.
    ///
    /// # Panics
    /// When memory is out.
    fn new(number: usize) -> Self {
        let slot = ((STACK_PAGES + 1) * PAGE) as u64;
        let bottom = STACK_SPACE + number as u64 * slot + PAGE as u64;
        paging::map(bottom, STACK_PAGES).expect("no memory for a stack");
        Self { bottom, top: bottom + (STACK_PAGES * PAGE) as u64 }
    }
}

/// Sets up the first CPU and its memory, and goes on in `main` on a stack with a guard page. The heap
/// is ready.
pub(super) fn init_first(main: extern "C" fn() -> !) -> ! {
    paging::init();
    let stack = Stack::new(0);
    cpu::init(0, stack.bottom);
    traps::init();
    // SAFETY: a fresh stack; nothing on the old one is used again.
    unsafe { switch_stack(stack.top, main) }
}

/// # Safety
/// `top` is the top of an unused stack.
#[unsafe(naked)]
unsafe extern "C" fn switch_stack(top: u64, main: extern "C" fn() -> !) -> ! {
    naked_asm!("mv sp, a0", "li s0, 0", "li ra, 0", "jr a1")
}

/// Starts the timer, the serial line's interrupt and the other CPUs; the boot code has read the device
/// tree. Returns how many CPUs there are. Interrupts are still off on this one.
///
/// # Panics
/// When a CPU does not start.
pub(super) fn init_machine(_device_tree: u64) -> usize {
    timer::start();
    plic::init();
    harts::start_others()
}
