//! The arguments of a hit, as a site has put them on the stack.

use crate::arch;

/// Most arguments a probe can carry: illumos's sdt takes what the C calling convention leaves on the stack, too.
pub const MAX_ARGS: usize = if cfg!(sdt_site = "call") { 10 } else { 6 };

/// The arguments of a hit, as they lie on the stack.
pub(crate) struct Hit {
    pub(crate) words: *const u64,
    pub(crate) count: usize,
}

impl Hit {
    /// All arguments; those the probe does not have are 0.
    ///
    /// # Safety
    /// `count` words are readable.
    pub(crate) unsafe fn args(&self) -> [u64; MAX_ARGS] {
        let mut args = [0; MAX_ARGS];
        let mut i = 0;
        while i < self.count && i < MAX_ARGS {
            // Volatile, because the compiler otherwise calls memcpy, which can be traced itself.
            // SAFETY: by contract `count` words are readable.
            args[i] = unsafe { self.words.add(i * arch::WORD_STRIDE).read_volatile() };
            i += 1;
        }
        args
    }
}
