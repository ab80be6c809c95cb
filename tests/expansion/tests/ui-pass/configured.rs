//! Conditions and lints on providers and probes.
#![deny(warnings)]
#![deny(clippy::all, missing_docs)]

use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    /// Conditions that are true, and conditions that are false.
    pub disk {
        /// Exists without a condition.
        fn always(bytes: u64);
        /// Exists.
        #[cfg(all())]
        fn there(bytes: u64);
        /// Does not exist, and neither do the types that it names.
        #[cfg(any())]
        fn absent(unknown: &NoSuchType, again: NoSuchType);
        /// One of two.
        #[cfg(any())]
        fn one(bytes: u64);
        /// The other one, which has other arguments and another name.
        #[cfg(not(any()))]
        #[name = "other_one"]
        fn one(first: u8, second: u8);
        #[cfg_attr(all(), doc = "Documented if a condition holds.", name = "named_if")]
        #[cfg_attr(any(), name = "not this", name = "nor this")]
        fn named();
    }
}

sdt_provider! {
    #[cfg_attr(all(), stability(provider = "Stable/Stable/Common"), doc = "Says it if a condition holds.")]
    #[cfg_attr(any(), no_such_attribute)]
    pub(crate) conditional
}

sdt_provider! {
    #[cfg(any())]
    absent {
        fn never(unknown: NoSuchType);
    }
}

sdt_provider! {
    #[cfg(any())]
    absent_too {
        #[cfg(all())]
        fn never(unknown: NoSuchType);
    }
}

sdt_provider! {
    #[cfg(all())]
    #[allow(deprecated)]
    there {
        #[deprecated]
        fn old(bytes: u64);
        #[allow(non_snake_case)]
        fn mixedCase(bytes: u64);
        #[allow(dead_code)]
        #[cfg(all())]
        fn unused(bytes: u64);
    }
}

mod within {
    sdt_core::sdt_provider! {
        pub(super) nested {
            #[cfg(all())]
            fn probe(number: crate::Number);
            #[cfg(any())]
            fn absent();
        }
    }
}

type Number = u32;

fn main() {
    sdt_probe!(disk::always, 1);
    sdt_probe!(disk::there, 2);
    sdt_probe!(disk::one, 1, 2);
    sdt_probe!(crate::disk::named);
    #[cfg(any())]
    sdt_probe!(disk::absent, 1, 2);
    sdt_probe!(conditional::anything, 3u32);
    #[cfg(any())]
    sdt_probe!(absent::never, 4);
    #[allow(deprecated)]
    if sdt_enabled!(there::old) {
        sdt_probe!(there::old, 5);
    }
    sdt_probe!(there::mixedCase, 6);
    sdt_probe!(within::nested::probe, 7);
}
