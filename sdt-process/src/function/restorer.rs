//! The code to which the handler of SIGTRAP returns.

use std::ptr;

/// Returns the address to which the handler returns: code of the C library that calls `rt_sigreturn(2)`.
pub(super) fn restorer() -> usize {
    /// The kernel's `struct sigaction` (Linux, `arch/x86/include/uapi/asm/signal.h`). That of the C library does not show the restorer.
    #[repr(C)]
    #[derive(Default)]
    struct Action {
        handler: usize,
        flags: libc::c_ulong,
        restorer: usize,
        mask: u64,
    }
    let mut now = Action::default();
    let no_action = ptr::null::<Action>();
    // SAFETY: the kernel writes `now`, which has the layout and the size of the mask that it expects, and changes nothing else.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            libc::SIGTRAP,
            no_action,
            &raw mut now,
            size_of::<u64>(),
        );
    }
    now.restorer
}
