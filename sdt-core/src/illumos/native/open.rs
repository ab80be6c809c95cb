//! Probes of open providers leave nothing either.

use crate::arg::{Carried, Tuple};

/// An open provider's probe leaves nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_probe {
    ($sound:expr, $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        static $record: $crate::__private::record::Probe = $crate::__private::record::Probe;
    };
}

/// The words of a site's arguments, whose types leave nothing.
#[inline(always)]
pub fn list_args<P, A: Tuple<COUNT>, const COUNT: usize>(args: &A) -> [Carried; COUNT] {
    const { crate::hit::check_words(A::WORDS) };
    args.carried()
}

/// An open provider's probe at one site, as a type.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_site {
    ($sound:expr, $site:ident, $record:ident, $hash:literal) => {
        enum $site {}
    };
}
