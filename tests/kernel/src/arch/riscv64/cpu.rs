//! One CPU, which is a hart: its number, its interrupt flag, and its data for the entry of traps.

use alloc::boxed::Box;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use riscv::register::{sscratch, sstatus};

/// CPUs there can be.
pub(crate) const MAX_CPUS: usize = 16;

/// Enough for a panic.
const EMERGENCY_STACK: usize = 32 << 10;

/// The per-CPU data to which tp points, and sscratch except in the first instructions of a trap. On FreeBSD tp points
/// to per-CPU data too (`sys/riscv/include/pcpu.h`); modules do not change it.
#[repr(C, align(16))]
pub(crate) struct Local {
    /// For [`crate::traps`]: t0, sp and t1 of the interrupted code.
    pub(crate) saved: UnsafeCell<[u64; 3]>,
    /// Lowest address of the stack. Emergency and boot stacks are above all others.
    pub(crate) stack_bottom: u64,
    /// The CPU's number.
    pub(crate) number: u64,
}

/// The stack for a trap whose frame does not fit on the current stack; the data of the CPU is above it.
#[repr(C, align(16))]
struct Emergency {
    stack: UnsafeCell<[u8; EMERGENCY_STACK]>,
    local: Local,
}

/// Sets the number of the CPU that runs this. Called once by each CPU, before its interrupts go on;
/// `stack_bottom` is the lowest address of the stack it is going to use.
pub(crate) fn init(number: usize, stack_bottom: u64) {
    let emergency = Box::leak(Box::new(Emergency {
        stack: UnsafeCell::new([0; EMERGENCY_STACK]),
        local: Local { saved: UnsafeCell::new([0; 3]), stack_bottom, number: number as u64 },
    }));
    let local = &raw const emergency.local as usize;
    // SAFETY: both registers are the kernel's own to use, and what they point to is never freed.
    unsafe {
        sscratch::write(local);
        asm!("mv tp, {}", in(reg) local, options(nomem, nostack, preserves_flags));
    }
}

/// Number of the CPU that runs this, from 0. Probe context; valid after [`init`].
pub(crate) fn current() -> usize {
    let number: usize;
    // SAFETY: tp points to this CPU's `Local`, whose number never changes.
    unsafe {
        asm!(
            "ld {}, {number}(tp)",
            out(reg) number,
            number = const offset_of!(Local, number),
            options(nostack, preserves_flags, readonly),
        );
    }
    number
}

/// Lowest address of this CPU's stack.
pub(crate) fn stack_bottom() -> u64 {
    let bottom;
    // SAFETY: tp points to this CPU's `Local`, and the stack's bottom never changes.
    unsafe {
        asm!(
            "ld {}, {bottom}(tp)",
            out(reg) bottom,
            bottom = const offset_of!(Local, stack_bottom),
            options(nostack, preserves_flags, readonly),
        );
    }
    bottom
}

/// Disables interrupts and says whether they were on. Probe context.
pub(crate) fn interrupts_off() -> bool {
    let before: usize;
    // One instruction, so that no interrupt occurs between reading the flag and disabling. Without `nomem`: the code
    // that follows must not be moved before it.
    // SAFETY: disabling interrupts has no effect on memory or other registers.
    unsafe { asm!("csrrci {}, sstatus, 2", out(reg) before, options(nostack, preserves_flags)) };
    before & 2 != 0
}

/// Goes back to what [`interrupts_off`] returned. Probe context.
pub(crate) fn restore_interrupts(enabled: bool) {
    if enabled {
        // SAFETY: the caller has left the code that no interrupt may enter.
        unsafe { sstatus::set_sie() };
    }
}

/// Enables interrupts and sleeps until an interrupt arrives; no interrupt is missed. Called with interrupts off;
/// returns with interrupts on.
pub(crate) fn wait_for_interrupt() {
    // Resumes when an interrupt is pending, whether or not it may be taken.
    riscv::asm::wfi();
    // SAFETY: tp points to this CPU's `Local`, and the stack's bottom never changes.
    unsafe { sstatus::set_sie() };
}

/// Stops this CPU. It does not return. Any context.
pub(crate) fn halt() -> ! {
    loop {
        interrupts_off();
        riscv::asm::wfi();
    }
}
