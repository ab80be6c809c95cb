//! Probes of open providers. Like declared probes, they have no records.

use crate::arg::{Carried, Tuple};

/// An open provider's probe, by type.
pub trait OpenProbe {
    /// The number of the probe in its description.
    const HASH: u64;
}

/// Returns the words of a site's arguments, and emits their description.
#[inline(always)]
pub fn list_args<P: OpenProbe, A: Tuple<COUNT>, const COUNT: usize>(args: &A) -> [Carried; COUNT] {
    const { crate::hit::check_words(A::WORDS) };
    crate::describe::list_args::<P, A, COUNT>();
    args.carried()
}
