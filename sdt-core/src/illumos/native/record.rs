//! Declarations: they have no records, because a probe is the name of its sites.

/// A provider.
#[derive(Debug)]
pub struct Provider;

/// A probe.
#[derive(Debug)]
pub struct Probe;

/// The records of illumos's own sdt: there are none.
///
/// | arm | |
/// |---|---|
/// | `@provider` | a provider: leaves nothing in the module, and its stability and privileges are ignored |
/// | `@declared` | a declared probe leaves its name and documentation in the crate, and nothing in the module |
/// | `@open` | an open provider's probe leaves nothing either |
/// | `@open_site` | such a probe at one site, as a type |
/// | `@group` | tests whether any of several probes is enabled: the kernel's sdt does not know groups, so it tests each probe |
/// | `@describe` | descriptions of probes, for tools that check the module |
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt {
    (@provider $record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        #[doc(hidden)]
        pub static $record: $crate::__private::record::Provider =
            $crate::__private::record::Provider;
    };
    (
        @declared $(#[$attr:meta])* $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal,
        $types:expr, $borrows:expr
    ) => {
        $(#[$attr])*
        #[allow(non_upper_case_globals)]
        pub static $record: $crate::__private::record::Probe = $crate::__private::record::Probe;
    };
    (@open $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        static $record: $crate::__private::record::Probe = $crate::__private::record::Probe;
    };
    (@open_site $site:ident, $record:ident, $hash:literal) => {
        enum $site {}
        impl $crate::__private::open::OpenProbe for $site {
            const HASH: u64 = $hash;
        }
    };
    (@group $provider:path, $listed:literal, [$($each:expr),*]) => { $($each)||* };
    (@describe $($probe:tt)*) => { $crate::__sdt_leave! { @$($probe)* } };
}
