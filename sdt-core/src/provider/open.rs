//! The argument types of open providers' probes, which only the compiler's type inference knows.

use core::arch::asm;

use crate::arg::{Carried, Tuple};
use crate::record::{Args, Probe, word};

/// A tuple's arguments in the form of [`ArgList`](crate::record::ArgList).
extern "C" fn args<A: Tuple<COUNT>, const COUNT: usize>() -> &'static Args {
    const { &Args { types: A::TYPES, borrows: A::BORROWS } }
}

/// The record of an open provider's probe, by type.
pub trait ProbeRecord {
    /// The record.
    extern "C" fn record() -> &'static Probe;
}

/// Emits an [`ArgList`](crate::record::ArgList) for probe `P`, whose site fires `A`. This adds no instructions. Returns
/// the words.
#[inline(always)]
pub fn list_args<P: ProbeRecord, A: Tuple<COUNT>, const COUNT: usize>(
    args: &A,
) -> [Carried; COUNT] {
    const { crate::hit::check_words(A::WORDS) };
    // SAFETY: the assembly has no instruction, and only a record in its own section.
    unsafe {
        asm!(
            ".pushsection sdt_arg_lists, \"awR\", %progbits",
            ".balign 8",
            word!(" {probe}, {args}"),
            ".popsection",
            probe = sym <P as ProbeRecord>::record,
            args = sym self::args::<A, COUNT>,
            options(nomem, nostack, preserves_flags),
        )
    }
    args.carried()
}
