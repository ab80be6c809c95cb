//! The arguments of a hit, as a site has put them on the stack.

use crate::arch;

/// Most words a probe can carry, on the route that this is built for.
pub const MAX_ARGS: usize = if cfg!(sdt_args = "10") {
    10
} else if cfg!(sdt_args = "6") {
    6
} else {
    5
};

/// Words of a hit, on the route that carries most: `arg0` to `arg9` for D.
pub const ARGS: usize = 10;

/// Ends the compilation if a probe has more words than there can be.
pub const fn check_words(count: usize) {
    if count > MAX_ARGS {
        panic!("{}", TOO_MANY);
    }
}

/// How many there can be, and where.
const TOO_MANY: &str = if cfg!(sdt_args = "10") {
    "a probe has at most 10 arguments; `&str`, slices, 128-bit integers and numbers in an `Option` count as two"
} else if cfg!(sdt_args = "6") {
    "a probe has at most 6 arguments on FreeBSD's own sdt (`SDT_ROUTE=provider` has 10); `&str`, slices, 128-bit integers and numbers in an `Option` count as two"
} else {
    "a probe has at most 5 arguments on FreeBSD before 15; `&str`, slices, 128-bit integers and numbers in an `Option` \
     count as two"
};

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
    pub(crate) unsafe fn args(&self) -> [u64; ARGS] {
        let mut args = [0; ARGS];
        let mut i = 0;
        while i < self.count && i < ARGS {
            // Volatile, because the compiler otherwise calls memcpy, which can be traced itself.
            // SAFETY: by contract `count` words are readable.
            args[i] = unsafe { self.words.add(i * arch::WORD_STRIDE).read_volatile() };
            i += 1;
        }
        args
    }
}
