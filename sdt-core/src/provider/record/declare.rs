//! What `sdt_provider!` and `sdt_probe!` make records with.

/// The record of a provider, in its set.
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_provider_record {
    ($record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        #[doc(hidden)]
        #[$crate::__private::linkme::distributed_slice($crate::__private::record::SDT_PROVIDERS)]
        #[linkme(crate = $crate::__private::linkme)]
        pub static $record: $crate::__private::record::Provider =
            $crate::__private::record::Provider::new($name)$(.$with($own))*;
    };
}

/// Puts the record of a probe into its set, by the macro that linkme makes for the set, to which its attribute leads.
/// The attribute adds a function and two closures to each element, by which the compiler checks the element's type:
/// half of the time that it takes to compile a declaration. Here the type is written down.
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_into_probes {
    ($(#[$attr:meta])* $visibility:vis $record:ident = $init:expr) => {
        $crate::__private::record::SDT_PROBES! {
            #![linkme_macro = $crate::__private::record::SDT_PROBES]
            $(#[$attr])*
            $visibility static $record: $crate::__private::record::Probe = $init;
        }
    };
}

/// The record of a provider, in no set.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_provider_record {
    ($record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        #[doc(hidden)]
        pub static $record: $crate::__private::record::Provider =
            $crate::__private::record::Provider::new($name)$(.$with($own))*;
    };
}

/// The record of a probe, in no set.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_into_probes {
    ($(#[$attr:meta])* $visibility:vis $record:ident = $init:expr) => {
        $(#[$attr])*
        $visibility static $record: $crate::__private::record::Probe = $init;
    };
}

/// The record of a declared probe, in its set.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_declared_probe {
    (
        $sound:expr, $(#[$attr:meta])* $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal,
        $types:expr
    ) => {
        $crate::__sdt_into_probes! {
            $(#[$attr])*
            #[allow(non_upper_case_globals)]
            pub $record = $crate::__private::record::Probe::declared(
                &$provider,
                $listed,
                const { &$types },
            )
        }
    };
}

/// The record of an open provider's probe at one site, in its set.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_probe {
    ($sound:expr, $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        $crate::__sdt_into_probes! {
            $record = $crate::__private::record::Probe::open(&$provider, $listed)
        }
    };
}
