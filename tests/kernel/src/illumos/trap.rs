//! `invoptrap` and `brktrap` (`usr/src/uts/intel/ml/exception.S`): after an invalid instruction or a breakpoint in the kernel,
//! call the handlers of DTrace's providers.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, Ordering};

use stand_in_illumos::regs::{InvopStack, Regs};

use crate::arch::cpu;
use crate::arch::frame::{BREAKPOINT, TrapFrame};
use crate::invop;

/// For each CPU, the stack of the innermost trap that it is handling; NULL if none.
static STACKS: [AtomicPtr<InvopStack>; cpu::MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; cpu::MAX_CPUS];

/// Returns the registers of the trap that this CPU is handling. Probe context.
pub(super) fn regs() -> Option<Regs> {
    let stack = STACKS[cpu::current()].load(Ordering::Relaxed);
    // SAFETY: `invop` on this CPU has stored a pointer to its local variable, and has not returned.
    unsafe { stack.as_ref() }.map(|stack| stack.regs)
}

/// Calls the handlers until one claims the trap (`dtrace_invop`). Returns the handler's result, which names the instruction to
/// emulate; 0 if no handler claims the trap. A handler may change the registers. Interrupts off, probe context.
pub(super) fn invop(frame: &mut TrapFrame) -> c_int {
    // After a breakpoint, the CPU saves the address of the next instruction; after an invalid instruction, its own address.
    // Handlers always get the address of the instruction itself.
    let address = frame.rip - u64::from(frame.trapno == BREAKPOINT);
    let mut stack = save(frame, address);
    let slot = &STACKS[cpu::current()];
    let outer = slot.swap(&raw mut stack, Ordering::Relaxed);
    // SAFETY: `stack` has the layout that illumos's handlers expect.
    let answer = unsafe { invop::dispatch(address, (&raw mut stack).cast(), frame.rax) };
    slot.store(outer, Ordering::Relaxed);
    if answer != 0 {
        restore(frame, &stack.regs);
        // Every emulated instruction has one byte.
        frame.rip += 1;
    }
    answer
}

fn save(frame: &TrapFrame, address: u64) -> InvopStack {
    let TrapFrame { rdi, rsi, rdx, rcx, r8, r9, rax, rbx, rbp, .. } = *frame;
    let TrapFrame { r10, r11, r12, r13, r14, r15, err, cs, rflags, rsp, ss, .. } = *frame;
    let regs = Regs {
        savfp: rbp,
        savpc: address,
        arguments: [rdi, rsi, rdx, rcx, r8, r9],
        rax_rbx_rbp: [rax, rbx, rbp],
        r10_to_r15: [r10, r11, r12, r13, r14, r15],
        bases: [0; 2],
        segments: [frame.ds, frame.es, frame.fs, frame.gs].map(u64::from),
        trapno: frame.trapno.into(),
        err,
        rip: address,
        cs,
        rfl: rflags,
        rsp,
        ss,
    };
    // SAFETY: the interrupted code is the kernel's, and its stack is mapped.
    InvopStack { top: unsafe { *(rsp as *const u64) }, regs }
}

fn restore(frame: &mut TrapFrame, regs: &Regs) {
    [frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9] = regs.arguments;
    [frame.rax, frame.rbx, frame.rbp] = regs.rax_rbx_rbp;
    [frame.r10, frame.r11, frame.r12, frame.r13, frame.r14, frame.r15] = regs.r10_to_r15;
    (frame.rip, frame.rflags) = (regs.rip, regs.rfl);
}
