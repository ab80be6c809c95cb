//! SIGTRAP handlers of the benchmark.

use std::ffi::c_void;

/// A signal handler with all its arguments.
pub type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// Resumes after the breakpoint: the minimal handler.
pub extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {}

/// Calls `work` while `handler` is the handler of SIGTRAP. The caller must not enable or disable a probe meanwhile.
///
/// # Panics
/// When the kernel refuses.
pub fn with<R>(handler: Handler, work: impl FnOnce() -> R) -> R {
    // SAFETY: zeroed sigactions are valid, and the handler has the SA_SIGINFO signature.
    unsafe {
        let [mut action, mut before]: [libc::sigaction; 2] = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, &mut before), 0);
        let result = work();
        assert_eq!(libc::sigaction(libc::SIGTRAP, &before, std::ptr::null_mut()), 0);
        result
    }
}

/// Returns the program counter at which the interrupted program resumes.
///
/// # Safety
/// The kernel passed `context` to a [`Handler`] that is still running.
pub unsafe fn program_counter(context: *mut c_void) -> u64 {
    // SAFETY: the caller guarantees that the kernel passed `context` to a handler with SA_SIGINFO: it is a `ucontext_t`.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64
}
