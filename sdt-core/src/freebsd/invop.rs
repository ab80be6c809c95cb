//! The kernel's breakpoint exception: `dtrace_invop_add` and the handler that redirects a hit to the
//! site's cold block.
//!
//! `sys/cddl/dev/dtrace/amd64/dtrace_subr.c` and `dtrace_asm.S`, and struct trapframe in
//! `sys/x86/include/frame.h`, main.

use core::ffi::c_int;

use static_assertions::const_assert_eq;

use crate::arch;
use crate::freebsd::Dtrace;
use crate::trap;

/// `struct trapframe` of amd64. 192 bytes.
#[repr(C)]
struct TrapFrame {
    /// rdi to tf_ds, tf_err.
    before: [u64; 19],
    rip: u64,
    /// cs, rflags, rsp, ss.
    after: [u64; 4],
}

const_assert_eq!(size_of::<TrapFrame>(), 192);
const_assert_eq!(core::mem::offset_of!(TrapFrame, rip), 152);

type Handler = unsafe extern "C" fn(address: usize, frame: *mut TrapFrame, third: usize) -> c_int;

unsafe extern "C" {
    // Not in probe context; allocates.
    safe fn dtrace_invop_add(handler: Handler);
    // Panics if the handler is not there.
    safe fn dtrace_invop_remove(handler: Handler);
}

/// "Emulate a nop": `bp_nop` returns to the frame's program counter as the handler left it.
const DTRACE_INVOP_NOP: c_int = 4;

/// Sends a breakpoint at one of this module's sites on its way. Probe context.
unsafe extern "C" fn on_breakpoint(address: usize, frame: *mut TrapFrame, _: usize) -> c_int {
    match trap::resume_address(address) {
        Some(resume) => {
            // SAFETY: the kernel passes the frame it is going to return from.
            unsafe { (*frame).rip = resume as u64 };
            DTRACE_INVOP_NOP
        }
        None => 0,
    }
}

/// The handler's address as the kernel knows it; one static, so that adding and removing name the same.
static HANDLER: Handler = on_breakpoint;

pub(super) fn hook() {
    const { assert!(arch::BREAKPOINT_LEN == 1, "the kernel passes tf_rip - 1") };
    dtrace_invop_add(HANDLER);
}

/// No site traps any more when this is called. The kernel's list of handlers has no lock and frees the
/// node at once, so every CPU that may be in this module's handler has to leave it first.
pub(super) fn unhook() {
    Dtrace.sync();
    dtrace_invop_remove(HANDLER);
    Dtrace.sync();
}
