//! A library with many probes: 4 providers, each in its own module with 16 functions, each with one site. Half of the providers
//! are declared, the others open.

/// Providers in the source.
pub const PROVIDERS: usize = 4;
/// Functions with a site, in each provider's module.
pub const FUNCTIONS: usize = 16;
/// Sites in the source. None is inlined or copied.
pub const SITES: usize = PROVIDERS * FUNCTIONS;
/// Probe records in the source: one for each site of an open provider, one for each declared probe,
/// and one for a declared probe that is fired nowhere.
pub const PROBES: usize = SITES + 1;
/// Argument lists in the source: one for each site of an open provider.
pub const ARG_LISTS: usize = SITES / 2;

/// Functions with a site each, and a table of them.
macro_rules! functions {
    ($provider:ident: $($function:ident)*) => {
        $(
            #[inline(never)]
            fn $function(x: u64) -> u64 {
                let y = std::hint::black_box(x) ^ 1;
                sdt_core::sdt_probe!($provider::$function, x, y);
                y
            }
        )*

        /// All functions of this module.
        pub static FUNCTIONS: [fn(u64) -> u64; super::FUNCTIONS] = [$($function),*];
    };
}

/// An open provider.
pub mod first {
    sdt_core::sdt_provider!(open_one);
    functions!(open_one: a b c d e f g h i j k l m n o p);
}

/// Another open provider, with probes of the same names.
pub mod second {
    sdt_core::sdt_provider!(open_two);
    functions!(open_two: a b c d e f g h i j k l m n o p);
}

macro_rules! declared {
    ($provider:ident: $($function:ident)* $(, $unfired:ident)?) => {
        sdt_core::sdt_provider! {
            /// A declared provider.
            pub $provider {
                $(
                    /// Fired once.
                    fn $function(x: u64, y: u64);
                )*
                $(
                    /// Fired nowhere.
                    fn $unfired();
                )?
            }
        }
        functions!($provider: $($function)*);
    };
}

/// A declared provider.
pub mod third {
    declared!(declared_one: a b c d e f g h i j k l m n o p, unfired);
}

/// Another declared provider, with probes of the same names.
pub mod fourth {
    declared!(declared_two: a b c d e f g h i j k l m n o p);
}
