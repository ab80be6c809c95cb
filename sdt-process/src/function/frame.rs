//! The registers of interrupted code, in the frame of a signal on x86_64.
//!
//! The kernel stores the registers in a `struct ucontext` on the stack. `rt_sigreturn(2)` loads them from the address
//! in the stack pointer (Linux, `arch/x86/kernel/signal_64.c`). The `struct ucontext` has a pointer to the state of the
//! floating-point unit and of vectors. The size of that state is in the bytes that the processor leaves to software
//! (`arch/x86/include/uapi/asm/sigcontext.h`).

use std::arch::global_asm;

use sdt_framework::Registers;

use crate::own_stack;
use crate::stack::{self, Boundary};

/// The frame of a signal. This module uses only its `ucontext`.
pub(super) type Context = libc::ucontext_t;

/// The size of the kernel's `struct ucontext`. That of the C library is larger.
const CONTEXT: usize = 304;
/// The bytes that stay free below the interrupted stack pointer: the red zone of 128, and room for instructions that push.
pub(super) const FREE: usize = 512;
/// The room in bytes that stays free below the frame of [`divert`], for the functions that it calls.
const BELOW: usize = 4096;
/// The size in bytes of the state that `fxsave` stores, and the offset in it of the bytes that the processor leaves to software
/// (`struct _fpx_sw_bytes`).
const FXSAVE: usize = 512;
const SOFTWARE: usize = 464;
/// `FP_XSTATE_MAGIC1`: there is more state, and its size follows.
const MAGIC: u32 = 0x4650_5853;
/// The largest size that is copied. Intel's AMX has 11 kB.
const LARGEST: usize = 64 << 10;
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
pub(super) fn registers(context: &Context) -> Registers {
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
pub(super) fn set_registers(context: &mut Context, registers: &Registers) {
    let all = &mut context.uc_mcontext.gregs;
    for (from, to) in registers.general.iter().zip(GENERAL) {
        all[to as usize] = *from as i64;
    }
    all[libc::REG_RIP as usize] = registers.rip as i64;
    all[libc::REG_EFL as usize] = registers.rflags as i64;
}

/// Sets the address at which the interrupted code continues.
pub(super) fn set_counter(context: &mut Context, counter: usize) {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = counter as i64;
}

/// Returns the beginning of the stack of interrupted code. At the boundary of a function, the return address is at the
/// stack pointer, and the frame pointer still has, or has again, the value of the caller.
pub(super) fn boundary(registers: &Registers) -> Boundary {
    let [sp, fp] = [registers.general[4], registers.general[5]].map(|of| of as usize);
    Boundary { counter: registers.rip as usize, caller_at: sp, frame: fp }
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

/// Copies the frame of a signal to the stack that the signal has interrupted, and makes the signal's handler return to the thunk, with the
/// copy at its stack pointer. The thunk passes `is_nested` on. Returns `false`, and does nothing, if the interrupted stack is an alternate one without room.
///
/// # Safety
/// The kernel passed `context` to a handler that has not returned, and at the interrupted instruction the stack is that of a function
/// boundary.
pub(super) unsafe fn divert(context: &mut Context, is_nested: bool) -> bool {
    let sp = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    // SAFETY: the kernel passed `context`, so its state pointer is initialised.
    let state = unsafe { *state_pointer(context) };
    // SAFETY: the pointer is not null, so the kernel has stored the state at it.
    let size = if state.is_null() { 0 } else { unsafe { state_size(state) } };
    // Without an alternate stack, this function runs on the interrupted one, below the frame of the signal.
    let here = own_stack::stack_pointer();
    let is_same = here < sp && sp - here < LARGEST + BELOW;
    let free = if is_same { here.saturating_sub(BELOW) } else { sp.saturating_sub(FREE) };
    let state_at = free.saturating_sub(size) & !63;
    let at = state_at.saturating_sub(CONTEXT) & !15;
    let alternate = &context.uc_stack;
    let low = alternate.ss_sp.addr();
    let is_alternate = alternate.ss_flags & libc::SS_DISABLE == 0
        && (low..low.saturating_add(alternate.ss_size)).contains(&sp);
    if size > LARGEST || is_alternate && at.saturating_sub(low) < stack::NEEDED {
        return false;
    }
    let copy = std::ptr::with_exposed_provenance_mut::<u8>(at);
    let state_copy = std::ptr::with_exposed_provenance_mut::<u8>(state_at);
    // SAFETY: the memory is on this thread's stack, below the interrupted code with its red zone and below this
    // handler, so nothing else uses it. If the stack ends before, the thread ends by SIGSEGV, as it would at any call
    // of that depth.
    unsafe {
        copy.copy_from_nonoverlapping(std::ptr::from_ref(context).cast(), CONTEXT);
        if size != 0 {
            state_copy.copy_from_nonoverlapping(state, size);
        }
        let moved = if size == 0 { std::ptr::null_mut() } else { state_copy };
        *state_pointer(copy.cast::<Context>()) = moved;
    }
    let all = &mut context.uc_mcontext.gregs;
    all[libc::REG_RSP as usize] = at as i64;
    all[libc::REG_RIP as usize] = thunk() as i64;
    all[libc::REG_RSI as usize] = is_nested.into();
    all[libc::REG_EFL as usize] &= !DIRECTION;
    true
}

/// Returns the address of the thunk.
pub(super) fn thunk() -> usize {
    unsafe extern "C" {
        fn sdt_process_function_thunk();
    }
    sdt_process_function_thunk as *const () as usize
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
    "mov rdi, rsp",
    "call {record}",
    // `rt_sigreturn` loads all registers from the copy of the frame. The stack pointer has passed the return address,
    // which the kernel does not use.
    "mov eax, {sigreturn}",
    "syscall",
    "ud2",
    ".cfi_endproc",
    ".size sdt_process_function_thunk, . - sdt_process_function_thunk",
    ".popsection",
    record = sym super::hit::record,
    sigreturn = const libc::SYS_rt_sigreturn,
);
