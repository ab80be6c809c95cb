//! An illumos module with firing sites at places where compilers transform calls: in tail position, in both branches of an `if`,
//! in generic functions, closures and loops, inlined or not, with 0 to 10 arguments, cheap and costly ones. It is built at every
//! level of optimisation. krtld must accept the sites of every build.
//!
//! Argument `i` of a probe that is called with `a` is `a + i`, so that a test can tell whether it arrived.
#![cfg_attr(not(test), no_std)]

mod counts;
#[cfg(target_os = "illumos")]
mod illumos;
mod lazy;
#[cfg(target_os = "illumos")]
mod many;
mod places;
mod refused;

use sdt_core::sdt_provider;

sdt_provider!(sdt_stress);

sdt_provider! {
    /// One of the providers that illumos knows.
    pub io {
        /// Declared, so with types.
        fn start(a: u64, b: u32);
    }
}

/// Fires every probe. Returns how many hits that are.
#[unsafe(no_mangle)]
pub extern "C" fn sdt_stress_fire(a: u64) -> u64 {
    let counts = counts::cheap(a) + counts::costly(a);
    #[cfg(target_os = "illumos")]
    let counts = counts + many::cheap(a) + many::costly(a);
    refused::fire(a);
    counts + places::fire(a) + lazy::fire()
}

/// Returns its argument, in a way that the optimiser cannot see through.
#[inline(never)]
pub(crate) fn opaque(a: u64) -> u64 {
    core::hint::black_box(a)
}

#[cfg(test)]
mod tests {
    #[test]
    fn disabled_probes_let_everything_pass() {
        assert_eq!(super::sdt_stress_fire(1), 39);
    }
}
