//! The frame of a signal on aarch64.

use std::arch::global_asm;
use std::mem::offset_of;

use libc::ucontext_t as Context;
use sdt_framework::Registers;

use super::records::{self, Extent};
use crate::stack::Boundary;

// The offset on which `records` relies.
const _: () = assert!(offset_of!(Context, uc_mcontext) == 176);

/// The number of the frame pointer, and of the link register.
const FP: usize = 29;
const LINK: usize = 30;
/// The bits of PSTATE that an indirect branch leaves for a landing pad.
const BRANCH_TYPE: u64 = 3 << 10;

/// Returns the registers at a breakpoint; the program counter is the breakpoint's address.
pub(in super::super) const fn registers(context: &Context) -> Registers {
    let all = &context.uc_mcontext;
    Registers { x: all.regs, sp: all.sp, pc: all.pc, pstate: all.pstate }
}

/// Sets the registers with which the interrupted code continues.
pub(in super::super) const fn set_registers(context: &mut Context, registers: &Registers) {
    let all = &mut context.uc_mcontext;
    all.regs = registers.x;
    [all.sp, all.pc, all.pstate] = [registers.sp, registers.pc, registers.pstate];
}

/// Sets the address at which the interrupted code continues.
pub(in super::super) const fn set_counter(context: &mut Context, counter: usize) {
    context.uc_mcontext.pc = counter as u64;
}

/// Returns the beginning of the stack of interrupted code. At the boundary of a function, the return address is in the link register,
/// without an authentication code, and the frame pointer still has, or has again, the value of the caller.
pub(in super::super) fn boundary(registers: &Registers) -> Boundary {
    let [caller, frame] = [LINK, FP].map(|of| registers.x[of] as usize);
    Boundary { counter: registers.pc as usize, caller, stack: registers.sp as usize, frame }
}

/// Returns the stack pointer of the interrupted code.
pub(super) const fn stack_pointer(context: &Context) -> usize {
    context.uc_mcontext.sp as usize
}

/// Returns the bytes that a copy of the frame has. `None` if the frame cannot be copied.
///
/// # Safety
/// The kernel passed `context` to a handler that has not returned.
pub(super) unsafe fn extent(context: &Context) -> Option<Extent> {
    // SAFETY: by the contract of this function; the search reads records of the frame only.
    records::aarch64(std::ptr::from_ref(context).addr(), unsafe { records::reader(context) })
}

/// Sets the stack pointer, and the registers of the first three arguments. Clears the bits of an indirect branch, as the thunk is no
/// landing pad.
pub(super) fn set_arguments(context: &mut Context, stack: usize, arguments: [usize; 3]) {
    let all = &mut context.uc_mcontext;
    all.sp = stack as u64;
    for (register, argument) in all.regs.iter_mut().zip(arguments) {
        *register = argument as u64;
    }
    all.pstate &= !BRANCH_TYPE;
}

global_asm!(
    ".pushsection .text.sdt_process_function_thunk, \"ax\", @progbits",
    ".balign 16",
    ".globl sdt_process_function_thunk",
    ".hidden sdt_process_function_thunk",
    ".type sdt_process_function_thunk, @function",
    "sdt_process_function_thunk:",
    // Unwinders stop here: the thunk has no caller.
    ".cfi_startproc",
    ".cfi_undefined x30",
    "blr x2",
    // `rt_sigreturn` loads all registers from the copy of the frame.
    "mov x8, {sigreturn}",
    "svc 0",
    "udf 0",
    ".cfi_endproc",
    ".size sdt_process_function_thunk, . - sdt_process_function_thunk",
    ".popsection",
    sigreturn = const libc::SYS_rt_sigreturn,
);
