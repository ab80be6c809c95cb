//! Probes of open providers leave no records either.

use crate::arg::{Carried, Tuple};

/// An open provider's probe, by type.
pub trait OpenProbe {
    /// The number by which its description names it.
    const HASH: u64;
}

/// The words of a site's arguments, which are described.
#[inline(always)]
pub fn list_args<P: OpenProbe, A: Tuple<COUNT>, const COUNT: usize>(args: &A) -> [Carried; COUNT] {
    const { crate::hit::check_words(A::WORDS) };
    crate::describe::list_args::<P, A, COUNT>();
    args.carried()
}
