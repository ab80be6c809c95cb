//! Declarations leave no records: a probe is what its sites are called.

/// A provider.
#[derive(Debug)]
pub struct Provider;

/// A probe.
#[derive(Debug)]
pub struct Probe;

/// A provider leaves nothing, whatever it says of itself.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_provider_record {
    ($record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        #[doc(hidden)]
        pub static $record: $crate::__private::record::Provider =
            $crate::__private::record::Provider;
    };
}

/// A declared probe leaves its name and documentation in the crate, and nothing in the module.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_declared_probe {
    (
        $sound:expr, $(#[$attr:meta])* $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal,
        $types:expr
    ) => {
        $(#[$attr])*
        #[allow(non_upper_case_globals)]
        pub static $record: $crate::__private::record::Probe = $crate::__private::record::Probe;
    };
}
