//! A kernel module for FreeBSD with a probe.
//!
//! The probe and what fires it are here, and run anywhere: `cargo test`. What makes a kernel module of it is in
//! `module.rs`; `by_hand.rs` is there to see the probe at work, and can go when something real fires it.
#![cfg_attr(not(test), no_std)]

use core::ffi::CStr;

use sdt_core::arg::Argument;
use sdt_core::{sdt_probe, sdt_provider};

#[cfg(target_os = "freebsd")]
mod by_hand;
#[cfg(target_os = "freebsd")]
mod module;

/// How somebody is greeted. For D `enum manner`, with `MANNER_PLAIN` and `MANNER_WARM`.
#[derive(Clone, Copy, Debug, Argument)]
pub enum Manner {
    Plain,
    Warm,
}

sdt_provider! {
    /// What this module does.
    pub my_module {
        /// Somebody has been greeted: who, and how.
        fn greeted(name: &str, manner: Manner);
    }
}

/// Greets somebody. While nobody traces the probe, it is one nop.
#[inline(never)]
pub fn greet(name: &CStr) {
    sdt_probe!(crate::my_module::greeted, text(name), manner(name));
}

/// The name as text. It is called while the probe is traced, and never else.
fn text(name: &CStr) -> &str {
    name.to_str().unwrap_or("?")
}

/// The world is greeted warmly.
fn manner(name: &CStr) -> Manner {
    if name == c"world" { Manner::Warm } else { Manner::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_listed_as_it_is_meant() {
        let probe = &my_module::greeted;
        assert_eq!(probe.provider().name(), c"my_module");
        assert_eq!(probe.name(), c"greeted");
    }

    #[test]
    fn without_a_kernel_nothing_fires() {
        greet(c"nobody");
    }
}
