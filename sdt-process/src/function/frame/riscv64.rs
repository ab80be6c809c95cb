//! The frame of a signal on riscv64.

use std::arch::global_asm;
use std::mem::offset_of;

use libc::ucontext_t as Context;
use sdt_framework::Registers;

use super::records::{self, Extent};
use crate::stack::Boundary;

// The offset on which `records` relies.
const _: () = assert!(offset_of!(Context, uc_mcontext) == 176);

/// The numbers of registers: return address, stack pointer, frame pointer, first argument.
const RA: usize = 1;
const SP: usize = 2;
const S0: usize = 8;
const A0: usize = 10;
/// The index of the program counter, in the place of the register that is always 0.
const PC: usize = 0;

/// Returns the registers at a breakpoint; the program counter is the breakpoint's address.
pub(in super::super) const fn registers(context: &Context) -> Registers {
    let mut x = context.uc_mcontext.__gregs;
    let pc = x[PC];
    x[PC] = 0;
    Registers { x, pc }
}

/// Sets the registers with which the interrupted code continues.
pub(in super::super) const fn set_registers(context: &mut Context, registers: &Registers) {
    context.uc_mcontext.__gregs = registers.x;
    context.uc_mcontext.__gregs[PC] = registers.pc;
}

/// Sets the address at which the interrupted code continues.
pub(in super::super) const fn set_counter(context: &mut Context, counter: usize) {
    context.uc_mcontext.__gregs[PC] = counter as u64;
}

/// Returns the beginning of the stack of interrupted code. At the boundary of a function, the return address is in its register, and the
/// frame pointer still has, or has again, the value of the caller.
pub(in super::super) fn boundary(registers: &Registers) -> Boundary {
    let [caller, stack, frame] = [RA, SP, S0].map(|of| registers.x[of] as usize);
    Boundary { counter: registers.pc as usize, caller, stack, frame }
}

/// Returns the stack pointer of the interrupted code.
pub(super) const fn stack_pointer(context: &Context) -> usize {
    context.uc_mcontext.__gregs[SP] as usize
}

/// Returns the bytes that a copy of the frame has. `None` if the frame cannot be copied.
///
/// # Safety
/// The kernel passed `context` to a handler that has not returned.
pub(super) unsafe fn extent(context: &Context) -> Option<Extent> {
    // SAFETY: by the contract of this function; the search reads records of the frame only.
    records::riscv64(std::ptr::from_ref(context).addr(), unsafe { records::reader(context) })
}

/// Sets the stack pointer, and the registers of the first three arguments.
pub(super) fn set_arguments(context: &mut Context, stack: usize, arguments: [usize; 3]) {
    let all = &mut context.uc_mcontext.__gregs;
    all[SP] = stack as u64;
    for (register, argument) in all[A0..].iter_mut().zip(arguments) {
        *register = argument as u64;
    }
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
    ".cfi_undefined ra",
    "jalr a2",
    // `rt_sigreturn` loads all registers from the copy of the frame.
    "li a7, {sigreturn}",
    "ecall",
    "unimp",
    ".cfi_endproc",
    ".size sdt_process_function_thunk, . - sdt_process_function_thunk",
    ".popsection",
    sigreturn = const libc::SYS_rt_sigreturn,
);
