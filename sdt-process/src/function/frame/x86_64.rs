//! The frame of a signal on x86_64.
//!
//! The kernel stores a `struct ucontext` and, elsewhere, the state of the floating-point unit and of vectors, to which the
//! `struct ucontext` has a pointer (Linux, `arch/x86/kernel/signal_64.c`). `rt_sigreturn(2)` expects the `struct ucontext` at the stack
//! pointer. The size of the state is in the bytes that the processor leaves to software (`arch/x86/include/uapi/asm/sigcontext.h`).

use std::arch::global_asm;

use libc::ucontext_t as Context;
use sdt_framework::Registers;

use super::limits::ALIGNMENT;
use crate::stack::Boundary;

/// The size of the kernel's `struct ucontext`. That of the C library is larger.
const CONTEXT: usize = 304;
/// The offset of the state in a copy.
const STATE: usize = CONTEXT.next_multiple_of(ALIGNMENT);
/// The size in bytes of the state that `fxsave` stores, and the offset in it of the bytes that the processor leaves to software
/// (`struct _fpx_sw_bytes`).
const FXSAVE: usize = 512;
const SOFTWARE: usize = 464;
/// `FP_XSTATE_MAGIC1`: there is more state, and its size follows.
const MAGIC: u32 = 0x4650_5853;
/// The direction flag. Functions are called with it clear (System V ABI, 3.4.1).
const DIRECTION: i64 = 1 << 10;

/// The general registers in the order of [`Registers::general`].
const GENERAL: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Returns the registers at a breakpoint; the program counter is the breakpoint's address.
pub(in super::super) fn registers(context: &Context) -> Registers {
    let all = &context.uc_mcontext.gregs;
    let mut registers = Registers::default();
    for (to, from) in registers.general.iter_mut().zip(GENERAL) {
        *to = all[from as usize] as u64;
    }
    let next = all[libc::REG_RIP as usize] as u64;
    registers.rip = next.wrapping_sub(sdt_core::trap::BREAKPOINT_LEN as u64);
    registers.rflags = all[libc::REG_EFL as usize] as u64;
    registers
}

/// Sets the registers with which the interrupted code continues.
pub(in super::super) fn set_registers(context: &mut Context, registers: &Registers) {
    let all = &mut context.uc_mcontext.gregs;
    for (from, to) in registers.general.iter().zip(GENERAL) {
        all[to as usize] = *from as i64;
    }
    all[libc::REG_RIP as usize] = registers.rip as i64;
    all[libc::REG_EFL as usize] = registers.rflags as i64;
}

/// Sets the address at which the interrupted code continues.
pub(in super::super) fn set_counter(context: &mut Context, counter: usize) {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = counter as i64;
}

/// Returns the beginning of the stack of interrupted code. At the boundary of a function, the return address is at the
/// stack pointer, and the frame pointer still has, or has again, the value of the caller.
pub(in super::super) fn boundary(registers: &Registers) -> Boundary {
    let [sp, fp] = [registers.general[4], registers.general[5]].map(|of| of as usize);
    Boundary {
        counter: registers.rip as usize,
        caller: sp,
        stack: sp + size_of::<u64>(),
        frame: fp,
    }
}

/// Returns the stack pointer of the interrupted code.
pub(super) const fn stack_pointer(context: &Context) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

/// Returns the address of the pointer to the state of the floating-point unit and of vectors, which follows the 23
/// general registers. Not every C library declares this field.
fn state_pointer(context: *mut Context) -> *mut *mut u8 {
    const REGISTERS: usize = 23;
    // SAFETY: the registers and the word behind them are in the `mcontext_t` of the context.
    unsafe { (&raw mut (*context).uc_mcontext).cast::<*mut u8>().add(REGISTERS) }
}

/// Returns the size of the state of the floating-point unit and of vectors.
///
/// # Safety
/// The kernel has stored the state there, in the frame of a signal.
unsafe fn state_size(state: *const u8) -> usize {
    // SAFETY: the state has at least 512 bytes, and the words of software are its last 48.
    let [magic, size] =
        unsafe { [SOFTWARE, SOFTWARE + 4].map(|at| state.add(at).cast::<u32>().read_unaligned()) };
    if magic == MAGIC { (size as usize).max(FXSAVE) } else { FXSAVE }
}

/// The bytes that a copy of a frame has: the `struct ucontext`, and the state behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Null if the kernel has stored no state.
    state: *const u8,
    state_size: usize,
}

/// Returns the bytes that a copy of the frame has.
///
/// # Safety
/// The kernel passed `context` to a handler that has not returned.
pub(super) unsafe fn extent(context: &mut Context) -> Option<Extent> {
    // SAFETY: the kernel passed `context`, so its state pointer is initialised.
    let state = unsafe { *state_pointer(context) };
    // SAFETY: the pointer is not null, so the kernel has stored the state at it.
    let state_size = if state.is_null() { 0 } else { unsafe { state_size(state) } };
    Some(Extent { state, state_size })
}

impl Extent {
    /// Returns the size of a copy.
    pub(super) const fn size(&self) -> usize {
        STATE + self.state_size
    }

    /// Copies the frame to an address, for a stack pointer with this address. Returns the copy of the `struct ucontext`.
    ///
    /// # Safety
    /// `self` is the [`extent`] of the frame, and the handler has not returned. The address is aligned to [`ALIGNMENT`], and nothing else
    /// uses the bytes of the copy.
    pub(super) unsafe fn copy(&self, context: &Context, at: usize) -> *mut Context {
        let copy = std::ptr::with_exposed_provenance_mut::<u8>(at);
        // SAFETY: the kernel has stored the context and the state; the caller guarantees the memory of the copy, which has room for both.
        unsafe {
            copy.copy_from_nonoverlapping(std::ptr::from_ref(context).cast(), CONTEXT);
            if !self.state.is_null() {
                let state = copy.add(STATE);
                state.copy_from_nonoverlapping(self.state, self.state_size);
                *state_pointer(copy.cast()) = state;
            }
        }
        copy.cast()
    }
}

/// Sets the stack pointer, and the registers of the first three arguments. Clears the direction flag, as functions expect it.
pub(super) fn set_arguments(context: &mut Context, stack: usize, arguments: [usize; 3]) {
    let all = &mut context.uc_mcontext.gregs;
    all[libc::REG_RSP as usize] = stack as i64;
    let registers = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX];
    for (register, argument) in registers.into_iter().zip(arguments) {
        all[register as usize] = argument as i64;
    }
    all[libc::REG_EFL as usize] &= !DIRECTION;
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
    ".cfi_undefined rip",
    "call rdx",
    // `rt_sigreturn` loads all registers from the copy of the frame. The stack pointer has passed the return address,
    // which the kernel does not use.
    "mov eax, {sigreturn}",
    "syscall",
    "ud2",
    ".cfi_endproc",
    ".size sdt_process_function_thunk, . - sdt_process_function_thunk",
    ".popsection",
    sigreturn = const libc::SYS_rt_sigreturn,
);
