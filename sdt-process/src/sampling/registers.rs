//! The registers of a thread that a signal has interrupted.

use std::ffi::c_void;

/// The registers from which a stack is followed, and the end of the alternate stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// The program counter.
    pub(crate) counter: usize,
    /// The frame pointer, if the interrupted function keeps one.
    pub(crate) frame: usize,
    pub(crate) stack: usize,
    /// The end of the alternate signal stack, if the thread was on it.
    pub(crate) alternate_end: Option<usize>,
}

impl Registers {
    /// Reads the registers.
    ///
    /// # Safety
    /// The kernel passed `context` to a signal handler with SA_SIGINFO that has not returned.
    pub(super) unsafe fn of(context: *const c_void) -> Self {
        // SAFETY: the kernel passes a `ucontext_t` to a handler with SA_SIGINFO, and it is valid until that returns.
        let context = unsafe { &*context.cast::<libc::ucontext_t>() };
        let machine = &context.uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        let [counter, frame, stack] = [libc::REG_RIP, libc::REG_RBP, libc::REG_RSP]
            .map(|register| machine.gregs[register as usize] as usize);
        #[cfg(target_arch = "aarch64")]
        let [counter, frame, stack] =
            [machine.pc, machine.regs[29], machine.sp].map(|register| register as usize);
        // The registers `pc`, `s0` and `sp`.
        #[cfg(target_arch = "riscv64")]
        let [counter, frame, stack] =
            [libc::REG_PC, 8, 2].map(|register| machine.__gregs[register] as usize);
        let start = context.uc_stack.ss_sp.addr();
        let end = start.saturating_add(context.uc_stack.ss_size);
        let alternate_end = (start..end).contains(&stack).then_some(end);
        Self { counter, frame, stack, alternate_end }
    }
}
