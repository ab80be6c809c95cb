//! The argument types of open providers' probes, which only the compiler's type inference knows.

use core::arch::asm;

use crate::arg::{Carried, Tuple};
use crate::record::{ArgTypes, Probe, word};

/// The types of a tuple's arguments, as [`ArgList`](crate::record::ArgList) wants them.
extern "C" fn types<A: Tuple<COUNT>, const COUNT: usize>() -> &'static ArgTypes {
    const { &A::TYPES }
}

/// The record of an open provider's probe, by type.
pub trait ProbeRecord {
    /// The record.
    extern "C" fn record() -> &'static Probe;
}

/// Leaves an [`ArgList`](crate::record::ArgList) for probe `P`, whose site fires `A`, for which there is no code. Returns the
/// words.
#[inline(always)]
pub fn list_args<P: ProbeRecord, A: Tuple<COUNT>, const COUNT: usize>(
    args: &A,
) -> [Carried; COUNT] {
    const { crate::hit::check_words(A::WORDS) };
    // SAFETY: no instruction; a record in a section of its own.
    unsafe {
        asm!(
            ".pushsection sdt_arg_lists, \"awR\", %progbits",
            ".balign 8",
            word!(" {probe}, {types}"),
            ".popsection",
            probe = sym <P as ProbeRecord>::record,
            types = sym types::<A, COUNT>,
            options(nomem, nostack, preserves_flags),
        )
    }
    args.carried()
}
