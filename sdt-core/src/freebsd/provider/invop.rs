//! The kernel's breakpoint exception: `dtrace_invop_add` and the handler that redirects a hit to the
//! site's cold block.
//!
//! Source: `sys/cddl/dev/dtrace/<architecture>/dtrace_subr.c` of FreeBSD's branch main.

use core::ffi::c_int;

use super::kernel::dtrace_sync;
use super::machdep::{TrapFrame, redirect};
use crate::trap;

type Handler = unsafe extern "C" fn(address: usize, frame: *mut TrapFrame, third: usize) -> c_int;

unsafe extern "C" {
    // Not in probe context; allocates.
    safe fn dtrace_invop_add(handler: Handler);
    // Panics if the handler is not registered.
    safe fn dtrace_invop_remove(handler: Handler);
}

/// Handles a breakpoint at one of this module's sites: redirects it to the cold block. `address` is that of the
/// breakpoint instruction, on every architecture. Probe context.
unsafe extern "C" fn on_breakpoint(address: usize, frame: *mut TrapFrame, _: usize) -> c_int {
    /// The breakpoint belongs to no site of this module: the kernel calls the next handler.
    const NOT_CLAIMED: c_int = 0;
    match trap::resume_address(address) {
        // SAFETY: the kernel passes the frame from which it will return.
        Some(resume) => redirect(unsafe { &mut *frame }, resume),
        None => NOT_CLAIMED,
    }
}

/// The address of the handler; one static, so that adding and removing use the same address.
static HANDLER: Handler = on_breakpoint;

pub(super) fn hook() {
    dtrace_invop_add(HANDLER);
}

/// Call this only when no site traps any more and every CPU has left this module's handler since, because the kernel's
/// list of handlers has no lock and frees the node at once.
pub(super) fn unhook() {
    dtrace_invop_remove(HANDLER);
    dtrace_sync();
}
