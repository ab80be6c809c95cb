//! Probes of open providers. Like declared probes, they have no records.

use crate::arg::{Carried, Tuple};

/// A type that represents a probe of an open provider.
pub trait OpenProbe {
    /// The hash of the provider and the name, which identifies the probe in the described lines (`.sdt_probes`).
    const HASH: u64;
}

/// Returns the words of a site's arguments, and emits their description.
#[inline(always)]
pub fn list_args<P: OpenProbe, A: Tuple<COUNT>, const COUNT: usize>(args: &A) -> [Carried; COUNT] {
    const { crate::hit::check_words(A::WORDS) };
    crate::describe::list_args::<P, A, COUNT>();
    args.carried()
}
