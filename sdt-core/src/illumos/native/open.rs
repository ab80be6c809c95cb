//! Probes of open providers leave nothing either.

/// An open provider's probe leaves nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_probe {
    ($sound:expr, $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        static $record: $crate::__private::record::Probe = $crate::__private::record::Probe;
    };
}

/// Nor do its arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_list_args {
    ($sound:expr, $record:ident, $hash:literal, $args:ident) => {};
}
