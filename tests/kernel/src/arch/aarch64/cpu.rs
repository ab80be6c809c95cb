//! One CPU: its number, its interrupt mask.

use alloc::boxed::Box;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use aarch64_cpu::asm::{wfe, wfi};
use aarch64_cpu::registers::{DAIF, MPIDR_EL1, Readable, TPIDR_EL1, Writeable};
use static_assertions::const_assert_eq;

/// The maximum number of CPUs.
pub(crate) const MAX_CPUS: usize = 16;

const OVERFLOW_STACK: usize = 16 << 10;

/// The data of a CPU. x18 points to it while the kernel or a module runs; TPIDR_EL1 always points to it. FreeBSD uses x18 in the
/// same way, for its `struct pcpu` (`sys/arm64/include/pcpu.h`).
#[repr(C, align(16))]
struct Local {
    number: u64,
    /// Top of the stack that is used after a stack overflow.
    overflow_stack_top: u64,
    overflow_stack: UnsafeCell<[u8; OVERFLOW_STACK]>,
}

const_assert_eq!(offset_of!(Local, number), 0);
/// The offset of `overflow_stack_top` in the data to which x18 points.
pub(crate) const OVERFLOW_STACK_TOP: usize = offset_of!(Local, overflow_stack_top);

/// Creates the data of this CPU and sets the pointers to it. Each CPU calls this function once, before it enables interrupts.
pub(crate) fn init(number: usize) {
    let local = Box::leak(Box::new(Local {
        number: number as u64,
        overflow_stack_top: 0,
        overflow_stack: UnsafeCell::new([0; OVERFLOW_STACK]),
    }));
    local.overflow_stack_top = local.overflow_stack.get() as u64 + OVERFLOW_STACK as u64;
    let address = &raw const *local as u64;
    TPIDR_EL1.set(address);
    // SAFETY: the target reserves x18, so compiled code does not use it.
    unsafe { asm!("mov x18, {}", in(reg) address, options(nomem, nostack, preserves_flags)) };
}

/// Number of the CPU that runs this, from 0. Probe context; valid after [`init`].
pub(crate) fn current() -> usize {
    let number: usize;
    // SAFETY: x18 points to this CPU's `Local` whose first field is the number, which never changes.
    unsafe {
        asm!("ldr {}, [x18]", out(reg) number, options(nostack, preserves_flags, readonly));
    }
    number
}

/// MPIDR affinity of the CPU that runs this.
pub(crate) fn affinity() -> u64 {
    MPIDR_EL1.get() & 0xff_00ff_ffff
}

/// Returns whether interrupts are on. Probe context.
pub(crate) fn interrupts_enabled() -> bool {
    !DAIF.is_set(DAIF::I)
}

/// Disables interrupts and says whether they were on. Probe context.
pub(crate) fn interrupts_off() -> bool {
    let enabled = interrupts_enabled();
    // Without `nomem`, so that the compiler does not move later memory accesses before this instruction.
    // SAFETY: the instruction masks interrupts and changes nothing else.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
    enabled
}

/// Enables interrupts if `enabled`, the result of [`interrupts_off`]. Probe context.
pub(crate) fn restore_interrupts(enabled: bool) {
    if enabled {
        // Without `nomem`, so that the compiler does not move earlier memory accesses after this instruction.
        // SAFETY: the caller has finished the code that must not be interrupted.
        unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
    }
}

/// Enables interrupts and sleeps until an interrupt arrives. No interrupt is missed: a pending one ends the sleep even
/// if it is masked. Called with interrupts off; returns with interrupts on.
pub(crate) fn wait_for_interrupt() {
    wfi();
    restore_interrupts(true);
}

/// Stops this CPU. It does not return. Any context.
pub(crate) fn halt() -> ! {
    interrupts_off();
    loop {
        wfe();
    }
}
