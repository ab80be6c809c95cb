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

/// Whether any of several probes is enabled: the kernel's sdt knows of no groups, so each is asked.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_enabled_group {
    ($sound:expr, $provider:path, $listed:literal, [$($each:expr),*]) => {
        $($each)||*
    };
}
