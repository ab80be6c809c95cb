//! The argument types of open providers' probes, which only the compiler's type inference knows.

use core::arch::asm;

use crate::arg::{ArgType, Argument};
use crate::record::{ArgTypes, Probe, word};

/// The argument types of a tuple of arguments.
#[diagnostic::on_unimplemented(
    message = "a probe has at most 6 arguments",
    label = "more than that"
)]
pub trait ArgTuple {
    /// Their types.
    const TYPES: ArgTypes;

    /// Their types, as [`ArgList`](crate::record::ArgList) wants them.
    extern "C" fn types() -> &'static ArgTypes {
        const { &Self::TYPES }
    }
}

macro_rules! arg_tuples {
    ($(($($arg:ident)*))*) => {$(
        impl<$($arg: Argument),*> ArgTuple for ($($arg,)*) {
            const TYPES: ArgTypes = const { &[$(<$arg as Argument>::TYPE),*] as &[ArgType] };
        }
    )*};
}

arg_tuples! { () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

/// The record of an open provider's probe, by type.
pub trait ProbeRecord {
    /// The record.
    extern "C" fn record() -> &'static Probe;
}

/// Leaves an [`ArgList`](crate::record::ArgList) for probe `P`, whose site fires `A`. No code.
#[inline(always)]
pub fn list_args<P: ProbeRecord, A: ArgTuple>(_: &A) {
    // SAFETY: no instruction; a record in a section of its own.
    unsafe {
        asm!(
            ".pushsection sdt_arg_lists, \"awR\", %progbits",
            ".balign 8",
            word!(" {probe}, {types}"),
            ".popsection",
            probe = sym <P as ProbeRecord>::record,
            types = sym <A as ArgTuple>::types,
            options(nomem, nostack, preserves_flags),
        )
    }
}

/// The record of the arguments at one site of an open provider's probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_list_args {
    ($sound:expr, $record:ident, $hash:literal, $args:ident) => {
        enum __SdtRecord {}
        impl $crate::__private::open::ProbeRecord for __SdtRecord {
            extern "C" fn record() -> &'static $crate::__private::record::Probe {
                &$record
            }
        }
        $crate::__private::open::list_args::<__SdtRecord, _>(&$args);
    };
}
