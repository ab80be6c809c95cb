//! One CPU, which is a hart: its number, its interrupt flag, and its data for the entry of traps.

use alloc::boxed::Box;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use riscv::register::{sscratch, sstatus};

/// The maximum number of CPUs.
pub(crate) const MAX_CPUS: usize = 16;

/// The size of the emergency stack in bytes, which is enough for a panic.
const EMERGENCY_STACK: usize = 32 << 10;

/// The data of a CPU. tp points to it, and so does sscratch except during the first instructions of a trap. On FreeBSD, too, tp
/// points to per-CPU data (`sys/riscv/include/pcpu.h`); modules do not change tp.
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

/// Creates the data of this CPU and sets the pointers to it. Each CPU calls this function once, before it enables interrupts.
/// `stack_bottom` is the lowest address of the CPU's stack.
pub(crate) fn init(number: usize, stack_bottom: u64) {
    let emergency = Box::leak(Box::new(Emergency {
        stack: UnsafeCell::new([0; EMERGENCY_STACK]),
        local: Local { saved: UnsafeCell::new([0; 3]), stack_bottom, number: number as u64 },
    }));
    let local = &raw const emergency.local as usize;
    // SAFETY: only the kernel uses sscratch and tp, and the `Local` is never freed.
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

/// Enables interrupts if `enabled`, the result of [`interrupts_off`]. Probe context.
pub(crate) fn restore_interrupts(enabled: bool) {
    if enabled {
        // SAFETY: the caller has finished the code that must not be interrupted.
        unsafe { sstatus::set_sie() };
    }
}

/// Enables interrupts and sleeps until an interrupt arrives; no interrupt is missed. Called with interrupts off;
/// returns with interrupts on.
pub(crate) fn wait_for_interrupt() {
    // `wfi` resumes when an interrupt is pending, even if interrupts are off.
    riscv::asm::wfi();
    // SAFETY: the caller allows interrupts, and the trap vector handles them.
    unsafe { sstatus::set_sie() };
}

/// Stops this CPU. It does not return. Any context.
pub(crate) fn halt() -> ! {
    loop {
        interrupts_off();
        riscv::asm::wfi();
    }
}
