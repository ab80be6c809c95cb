//! The registers of interrupted code, in the frame of a signal.
//!
//! The kernel stores the registers in a `struct ucontext` on the stack. `rt_sigreturn(2)` loads them from an address relative to the stack
//! pointer. So a copy of the frame elsewhere does the same.
//!
//! Each module of an architecture has the same items:
//!
//! | item | meaning |
//! |---|---|
//! | `registers`, `set_registers`, `set_counter` | the registers of the interrupted code |
//! | `stack_pointer` | its stack pointer |
//! | `boundary` | the beginning of its stack |
//! | `extent` | the bytes that a copy of the frame has: `size`, `copy`; `None` if the frame cannot be copied |
//! | `set_arguments` | sets the stack pointer, and the registers of the first three arguments |
//! | `sdt_process_function_thunk` | the thunk: calls the function in its third argument, and loads the registers of the copy |

mod limits;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod records;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as arch;

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
use riscv64 as arch;

pub(super) use arch::{boundary, registers, set_counter, set_registers};

use self::limits::{ALIGNMENT, LARGEST};
use crate::{own_stack, stack};

/// The frame of a signal. This module uses only its `ucontext`.
pub(super) type Context = libc::ucontext_t;

/// A function that the thunk calls: it records the hit, and sets the registers in the copy.
pub(super) type Record = unsafe extern "C" fn(*mut Context, bool);

/// The bytes that stay free below the interrupted stack pointer: the red zone of x86_64, which is 128, and room for instructions that
/// store below the stack pointer, which is up to 512 on aarch64.
pub(super) const FREE: usize = 512;
/// The room in bytes that stays free below the frame of [`divert`], for the functions that it calls.
const BELOW: usize = 4096;

/// Copies the frame of a signal to the stack that the signal has interrupted, and makes the signal's handler return to the thunk, with the
/// copy at its stack pointer. The thunk calls `record` with the copy and `is_nested`. Returns `false`, and does nothing, if the frame
/// cannot be copied, or if the interrupted stack is an alternate one without room.
///
/// # Safety
/// The kernel passed `context` to a handler that has not returned, and at the interrupted instruction the stack is that of a function
/// boundary.
pub(super) unsafe fn divert(context: &mut Context, is_nested: bool, record: Record) -> bool {
    let sp = arch::stack_pointer(context);
    // SAFETY: the kernel passed `context` to a handler that has not returned, by the contract of this function.
    let Some(extent) = (unsafe { arch::extent(context) }) else { return false };
    // Without an alternate stack, this function runs on the interrupted one, below the frame of the signal.
    let here = own_stack::stack_pointer();
    let is_same = here < sp && sp - here < LARGEST + BELOW;
    let free = if is_same { here.saturating_sub(BELOW) } else { sp.saturating_sub(FREE) };
    let at = free.saturating_sub(extent.size()) & !(ALIGNMENT - 1);
    let alternate = &context.uc_stack;
    let low = alternate.ss_sp.addr();
    let is_alternate = alternate.ss_flags & libc::SS_DISABLE == 0
        && (low..low.saturating_add(alternate.ss_size)).contains(&sp);
    if extent.size() > LARGEST || is_alternate && at.saturating_sub(low) < stack::NEEDED {
        return false;
    }
    // SAFETY: the memory is on this thread's stack, below the interrupted code with its red zone and below this handler, so nothing else
    // uses it. If the stack ends before, the thread ends by SIGSEGV, as it would at any call of that depth.
    let copy = unsafe { extent.copy(context, at) };
    let arguments = [copy.addr(), is_nested.into(), record as *const () as usize];
    arch::set_arguments(context, at, arguments);
    arch::set_counter(context, thunk());
    true
}

/// Returns the address of the thunk.
pub(super) fn thunk() -> usize {
    unsafe extern "C" {
        fn sdt_process_function_thunk();
    }
    sdt_process_function_thunk as *const () as usize
}
