//! A kernel module for illumos with a probe.
//!
//! This file has the probe and the function that fires it. Both run anywhere: `cargo test`. `module.rs` makes a kernel
//! module of the crate. `by_hand.rs` fires the probe by hand; delete it when the module's own code fires the probe.
#![cfg_attr(not(test), no_std)]

use core::ffi::CStr;

use sdt_core::arg::Argument;
use sdt_core::{sdt_probe, sdt_provider};

#[cfg(target_os = "illumos")]
mod by_hand;
#[cfg(target_os = "illumos")]
mod module;

/// The manner of a greeting. D knows it as `enum manner`, with `MANNER_PLAIN` and `MANNER_WARM`.
#[derive(Clone, Copy, Debug, Argument)]
pub enum Manner {
    Plain,
    Warm,
}

sdt_provider! {
    /// The events of this module.
    pub my_module {
        /// A greeting was sent: to whom, and in which manner.
        fn greeted(name: &str, manner: Manner);
    }
}

/// Sends a greeting.
// illumos lists the probe once for each function that fires it, so all callers share this function.
#[inline(never)]
pub fn greet(name: &CStr) {
    sdt_probe!(crate::my_module::greeted, text(name), manner(name));
}

/// Returns the name as text. It runs only while the probe is enabled.
fn text(name: &CStr) -> &str {
    name.to_str().unwrap_or("?")
}

/// Returns the manner of a greeting: warm for the world. It runs only while the probe is enabled.
fn manner(name: &CStr) -> Manner {
    if name == c"world" { Manner::Warm } else { Manner::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_has_the_names_that_dtrace_lists() {
        let probe = &my_module::greeted;
        assert_eq!(probe.provider().name(), c"my_module");
        assert_eq!(probe.name(), c"greeted");
    }

    #[test]
    fn without_a_kernel_nothing_fires() {
        greet(c"world");
    }
}
