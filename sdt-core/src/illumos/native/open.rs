//! Probes of open providers leave no records either.

use crate::arg::{Carried, Tuple};

/// An open provider's probe leaves no record.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_probe {
    ($sound:expr, $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        static $record: $crate::__private::record::Probe = $crate::__private::record::Probe;
    };
}

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

/// An open provider's probe at one site, as a type.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_site {
    ($sound:expr, $site:ident, $record:ident, $hash:literal) => {
        enum $site {}
        impl $crate::__private::open::OpenProbe for $site {
            const HASH: u64 = $hash;
        }
    };
}

/// Whether any of several probes is enabled: the kernel's sdt knows of no groups, so each is asked.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_enabled_group {
    ($sound:expr, $provider:path, $listed:literal, [$($each:expr),*]) => {
        $($each)||*
    };
}
