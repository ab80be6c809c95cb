//! SIGTRAP: the breakpoint exception of a process.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// Breakpoints that were claimed.
pub static TRAPS: AtomicU64 = AtomicU64::new(0);

/// A signal handler with all its arguments.
pub type Handler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// Goes on behind the breakpoint: the least a handler can do.
pub extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {}

/// Sends a hit to its site's cold block. Ends the program at any other breakpoint.
///
/// # Safety
/// It is called as a [`Handler`], of SIGTRAP.
pub unsafe extern "C" fn on_hit(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the caller's contract.
    let pc = unsafe { program_counter(context) };
    let breakpoint = *pc as usize - sdt_core::trap::BREAKPOINT_LEN;
    match sdt_core::trap::resume_address(breakpoint) {
        Some(resume) => {
            TRAPS.fetch_add(1, Ordering::Relaxed);
            *pc = resume as i64;
        }
        // SAFETY: always sound.
        None => unsafe { libc::abort() },
    }
}

/// Makes `handler` the handler of SIGTRAP.
///
/// # Panics
/// When the kernel refuses.
pub fn handle_traps(handler: Handler) {
    // SAFETY: a zeroed sigaction is a valid one, and the handler has the SA_SIGINFO signature.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

/// Where the interrupted program goes on.
///
/// # Safety
/// `context` is what the kernel handed to a [`Handler`], which is still running.
pub unsafe fn program_counter<'a>(context: *mut c_void) -> &'a mut i64 {
    // SAFETY: by contract a ucontext.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
}
