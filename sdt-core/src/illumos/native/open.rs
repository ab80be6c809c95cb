//! Probes of open providers leave no records either.

/// An open provider's probe leaves no record.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_probe {
    ($sound:expr, $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        static $record: $crate::__private::record::Probe = $crate::__private::record::Probe;
    };
}

/// Its arguments are described.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_list_args {
    ($sound:expr, $record:ident, $hash:literal, $args:ident) => {
        $crate::__sdt_describe_args!($hash, $args);
    };
}
