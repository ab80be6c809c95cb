//! The macros with which `sdt_provider!` and `sdt_probe!` create records.

/// Selects the parts of providers, probes and sites that remain in the image: all of them.
///
/// `@code` is the code of a site, `@provider` the record of a provider in its set, `@probe` that of a probe. The macro to which
/// linkme's attribute expands puts the element into its set. The attribute itself would also add a function and two closures for
/// each element, to check its type. They would take half of the time to compile a declaration. Here the type is explicit.
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_leave {
    (@code $($site:tt)*) => { $($site)* };
    (@provider $record:ident, $init:expr) => {
        #[doc(hidden)]
        #[$crate::__private::linkme::distributed_slice($crate::__private::record::SDT_PROVIDERS)]
        #[linkme(crate = $crate::__private::linkme)]
        pub static $record: $crate::__private::record::Provider = $init;
    };
    (@probe $(#[$attr:meta])* $visibility:vis $record:ident = $init:expr) => {
        $crate::__private::record::SDT_PROBES! {
            #![linkme_macro = $crate::__private::record::SDT_PROBES]
            $(#[$attr])*
            $visibility static $record: $crate::__private::record::Probe = $init;
        }
    };
}

/// With feature `off`, the code of a site is compiled and never executed, and records are in no set.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_leave {
    (@code $($site:tt)*) => {
        if false {
            $($site)*
        }
    };
    (@provider $record:ident, $init:expr) => {
        #[doc(hidden)]
        pub static $record: $crate::__private::record::Provider = $init;
    };
    (@probe $(#[$attr:meta])* $visibility:vis $record:ident = $init:expr) => {
        $(#[$attr])*
        $visibility static $record: $crate::__private::record::Probe = $init;
    };
}

/// The records of the provider route.
///
/// | arm | |
/// |---|---|
/// | `@provider` | the record of a provider |
/// | `@declared` | that of a declared probe |
/// | `@open` | that of an open provider's probe at one site |
/// | `@open_site` | such a probe at one site, as a type |
/// | `@group` | the site of a group: its record, and the nop that is patched while a probe of it is enabled |
/// | `@describe` | descriptions of probes: none, as there are records |
/// | `@sites` | the section of the sites' records |
/// | `@push_probe` | x86_64's push of the address of the probe's primary record, which the record itself has |
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt {
    (@provider $record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        $crate::__sdt_leave! {
            @provider $record, $crate::__private::record::Provider::new($name)$(.$with($own))*
        }
    };
    (
        @declared $(#[$attr:meta])* $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal,
        $types:expr, $borrows:expr
    ) => {
        $crate::__sdt_leave! {
            @probe
            $(#[$attr])*
            #[allow(non_upper_case_globals)]
            pub $record = $crate::__private::record::Probe::declared(
                &$provider,
                $listed,
                const { &$crate::__private::record::Args { types: $types, borrows: $borrows } },
            )
        }
    };
    (@open $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        $crate::__sdt_leave! {
            @probe $record = $crate::__private::record::Probe::open(&$provider, $listed)
        }
    };
    (@open_site $site:ident, $record:ident, $hash:literal) => {
        enum $site {}
        impl $crate::__private::open::ProbeRecord for $site {
            extern "C" fn record() -> &'static $crate::__private::record::Probe {
                &$record
            }
        }
    };
    (@group $provider:path, $listed:literal, [$($each:expr),*]) => {{
        let mut enabled = false;
        $crate::__sdt_leave! {
            @code
            $crate::__sdt_leave! {
                @probe __SDT_GROUP = $crate::__private::record::Probe::open(&$provider, $listed)
            }
            $crate::__sdt_site!(@site __SDT_GROUP, "", { enabled = true; });
        }
        enabled
    }};
    (@describe $($probe:tt)*) => {};
    (@sites) => { "sdt_sites" };
    (@push_probe) => { "push qword ptr [rip + {__sdt_probe} + {__sdt_primary}]" };
}
