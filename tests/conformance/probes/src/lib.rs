//! The code that the conformance tests compare with the same code in C, which is in `../c`: [`records`], and functions
//! with and without probes. This code never runs.
#![no_std]

#[cfg(feature = "arguments")]
mod arguments;
#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(not(any(target_os = "freebsd", target_os = "illumos")))]
mod host;
pub mod records;
#[cfg(feature = "refused")]
mod refused;

use sdt_core::sdt_provider;

sdt_provider! {
    /// The probes of the functions.
    sides {
        /// No argument.
        fn zero();
        /// One.
        fn one(a: u64);
        /// Two.
        fn two(a: u64, b: u64);
        /// Three.
        fn three(a: u64, b: u64, c: u64);
        /// Four.
        fn four(a: u64, b: u64, c: u64, d: u64);
        /// Five.
        fn five(a: u64, b: u64, c: u64, d: u64, e: u64);
    }
}

#[cfg(feature = "six")]
sdt_provider! {
    /// Like `sides`, with six arguments.
    sides_of_15 {
        /// Six arguments.
        fn six(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64);
    }
}

sdt_provider!(kinds);

/// Hides the use of the memory from the compiler.
#[inline(always)]
fn hide(room: &mut [u64; 128]) {
    // SAFETY: does nothing.
    unsafe { core::arch::asm!("/* {0} */", in(reg) room, options(nostack, preserves_flags)) };
}

/// The functions of `../c/functions.c` and those of `kinds.rs`, without their probes.
pub mod plain {
    use super::hide;

    macro_rules! symbol {
        ($name:literal) => {
            concat!("plain_", $name)
        };
    }
    macro_rules! probe {
        ($($site:tt)*) => {};
    }
    macro_rules! enabled {
        ($($probes:tt)*) => {
            false
        };
    }

    include!("functions.rs");
    include!("kinds.rs");
}

/// The same functions, with their probes.
pub mod probed {
    #[cfg(feature = "six")]
    use super::sides_of_15;
    use super::{hide, kinds, sides};

    macro_rules! symbol {
        ($name:literal) => {
            $name
        };
    }
    macro_rules! probe {
        ($($site:tt)*) => { sdt_core::sdt_probe!($($site)*) };
    }
    macro_rules! enabled {
        ($($probes:tt)*) => {
            sdt_core::sdt_enabled!($($probes)*)
        };
    }

    include!("functions.rs");
    include!("kinds.rs");
}
