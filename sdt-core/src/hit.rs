//! The arguments of a hit, which the site has pushed onto the stack.

use crate::arch;
use crate::ops::ARGS;

/// The largest number of argument words of a probe on the route for which this is built. `build.rs` sets it.
pub const CARRIED: usize = match usize::from_str_radix(env!("SDT_ARGS"), 10) {
    Ok(count) => count,
    Err(_) => panic!("build.rs sets a number"),
};

/// Ends the compilation if a probe has more words than the route carries.
pub const fn check_words(count: usize) {
    if count > CARRIED {
        panic!("{}", TOO_MANY);
    }
}

/// The message for a probe with more words than the route carries.
const TOO_MANY: &str = if cfg!(sdt_args = "10") {
    "a probe can have at most 10 arguments; `&str`, slices, 128-bit integers and numbers in an \
     `Option` count as two"
} else if cfg!(sdt_args = "6") {
    "a probe can have at most 6 arguments with FreeBSD's own sdt (10 with `SDT_ROUTE=provider`); \
     `&str`, slices, 128-bit integers and numbers in an `Option` count as two"
} else {
    "a probe can have at most 5 arguments on FreeBSD before 15; `&str`, slices, 128-bit integers \
     and numbers in an `Option` count as two"
};

/// The arguments of a hit, on the stack of the function that fired.
pub(crate) struct Hit {
    /// The address of the first word; the others follow [`arch::WORD_STRIDE`] words apart.
    pub(crate) words: *const u64,
    /// The number of words.
    pub(crate) count: usize,
}

impl Hit {
    /// Returns all words; those that the probe does not have are 0.
    ///
    /// # Safety
    /// `words` point to `count` readable words.
    pub(crate) unsafe fn args(&self) -> [u64; ARGS] {
        let mut args = [0; ARGS];
        let mut i = 0;
        while i < self.count && i < ARGS {
            // SAFETY: `i < count`, and `count` words are readable by the contract of this function. Volatile, because the
            // compiler otherwise calls memcpy, which can be traced itself.
            args[i] = unsafe { self.words.add(i * arch::WORD_STRIDE).read_volatile() };
            i += 1;
        }
        args
    }
}
