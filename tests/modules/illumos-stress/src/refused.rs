//! Code that the check refuses on illumos's native route, each piece behind a feature of its own.

/// Two probes of one listed name, `stress-merged`.
#[cfg(feature = "merged")]
mod merged {
    use sdt_core::{sdt_probe, sdt_provider};

    sdt_provider!(stress);
    sdt_provider! {
        sdt {
            fn stress_merged(a: u64, b: bool);
        }
    }

    #[inline(never)]
    pub(super) fn fire(a: u64) {
        sdt_probe!(stress::merged, a);
        sdt_probe!(sdt::stress_merged, a, a == 1);
    }
}

/// A probe that is fired with other arguments at another place.
#[cfg(feature = "arguments")]
mod arguments {
    use sdt_core::{sdt_probe, sdt_provider};

    sdt_provider!(stress);

    #[inline(never)]
    pub(super) fn fire(a: u64) {
        sdt_probe!(stress::hit, a);
        sdt_probe!(stress::hit, a as u32);
    }
}

/// A probe whose name is short enough without its provider's.
#[cfg(feature = "long-name")]
mod long_name {
    use sdt_core::{sdt_probe, sdt_provider};

    sdt_provider!(stress);
    sdt_provider! {
        declared {
            fn xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
        }
    }

    pub(super) fn fire(_: u64) {
        sdt_probe!(stress::xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx);
    }
}

/// Fires the probes of the enabled features.
pub(crate) fn fire(_a: u64) {
    #[cfg(feature = "merged")]
    merged::fire(_a);
    #[cfg(feature = "arguments")]
    arguments::fire(_a);
    #[cfg(feature = "long-name")]
    long_name::fire(_a);
}
