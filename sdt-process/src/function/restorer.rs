//! The code to which the handler of SIGTRAP returns.

#[cfg(not(target_arch = "riscv64"))]
use std::ptr;

/// Returns the address to which the handler returns, if it is code of the C library that calls `rt_sigreturn(2)`. Otherwise the handler
/// returns to code of the kernel, the vDSO.
#[cfg(not(target_arch = "riscv64"))]
pub(super) fn restorer() -> Option<usize> {
    /// `SA_RESTORER`
    const HAS_RESTORER: libc::c_ulong = 0x0400_0000;
    /// The kernel's `struct sigaction` (Linux, `arch/x86/include/uapi/asm/signal.h`, `include/linux/signal_types.h`). That of the C library
    /// does not show the restorer.
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
    (now.flags & HAS_RESTORER != 0).then_some(now.restorer)
}

/// Returns `None`: on riscv64, handlers return to code of the kernel, the vDSO.
#[cfg(target_arch = "riscv64")]
pub(super) const fn restorer() -> Option<usize> {
    None
}
