//! One CPU: its number, its interrupt mask.

use alloc::boxed::Box;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use aarch64_cpu::asm::{wfe, wfi};
use aarch64_cpu::registers::{DAIF, MPIDR_EL1, Readable, TPIDR_EL1, Writeable};
use static_assertions::const_assert_eq;

/// CPUs there can be.
pub(crate) const MAX_CPUS: usize = 16;

const OVERFLOW_STACK: usize = 16 << 10;

/// What x18 points to while the kernel or a module runs, and TPIDR_EL1 always: FreeBSD's `struct pcpu`
/// is there too (`sys/arm64/include/pcpu.h`).
#[repr(C, align(16))]
struct Local {
    number: u64,
    /// Top of the stack that is used after a stack overflow.
    overflow_stack_top: u64,
    overflow_stack: UnsafeCell<[u8; OVERFLOW_STACK]>,
}

const_assert_eq!(offset_of!(Local, number), 0);
/// Offset of the overflow stack's top in what x18 points to.
pub(crate) const OVERFLOW_STACK_TOP: usize = offset_of!(Local, overflow_stack_top);

/// Sets the per-CPU pointer of the CPU that runs this. Called once by each CPU, before its interrupts
/// go on.
pub(crate) fn init(number: usize) {
    let local = Box::leak(Box::new(Local {
        number: number as u64,
        overflow_stack_top: 0,
        overflow_stack: UnsafeCell::new([0; OVERFLOW_STACK]),
    }));
    local.overflow_stack_top = local.overflow_stack.get() as u64 + OVERFLOW_STACK as u64;
    let address = &raw const *local as u64;
    TPIDR_EL1.set(address);
    // SAFETY: the target reserves x18, so that no compiled code uses it; it is for this.
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
    // Without `nomem`: what follows must not be moved out.
    // SAFETY: masks interrupts, which changes nothing else.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
    enabled
}

/// Goes back to what [`interrupts_off`] returned. Probe context.
pub(crate) fn restore_interrupts(enabled: bool) {
    if enabled {
        // Without `nomem`: what comes before must not be moved in.
        // SAFETY: the caller has left the code that no interrupt may enter.
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
