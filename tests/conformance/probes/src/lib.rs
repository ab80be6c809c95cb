//! What the conformance tests compare with the same in C, which is in `../c`: [`records`], and functions with
//! and without probes. Nothing here is ever run.
#![no_std]

#[cfg(target_os = "freebsd")]
mod freebsd;
pub mod records;

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
    /// The same, of six arguments.
    sides_of_15 {
        /// Six.
        fn six(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64);
    }
}

/// The functions of `../c/functions.c`, without their probes.
pub mod plain {
    macro_rules! symbol {
        ($name:literal) => {
            concat!("plain_", $name)
        };
    }
    macro_rules! probe {
        ($($site:tt)*) => {};
    }

    include!("functions.rs");
}

/// The same with them.
pub mod probed {
    use super::sides;
    #[cfg(feature = "six")]
    use super::sides_of_15;

    macro_rules! symbol {
        ($name:literal) => {
            $name
        };
    }
    macro_rules! probe {
        ($($site:tt)*) => { sdt_core::sdt_probe!($($site)*) };
    }

    include!("functions.rs");
}
