//! Statically defined tracing for Rust kernels: DTrace's SDT probes, for kernels and kernel modules
//! written in Rust.
//!
//! ```
//! use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};
//!
//! sdt_provider!(proc);
//!
//! fn on_exec(path: &core::ffi::CStr) {
//!     sdt_probe!(proc::exec_success, path);
//! }
//! ```
//!
//! # What a site is
//!
//! One nop, and a record of where it is in a linker set. Arguments are evaluated only when the probe is
//! enabled, in a cold block that the patched nop leads to. While disabled a function with a probe is
//! the function without it and that one nop: no load, no compare, no register set up or saved.
//!
//! # From declaration to `dtrace -n`
//!
//! 1. `sdt_provider!` and `sdt_probe!` leave [records](record) in linker sets.
//! 2. [`attach`](attach::attach) checks them and registers each provider with the kernel's framework
//!    through an [ops table](ops::ProviderOps).
//! 3. A consumer enables a probe; the framework calls the table; [`patch`] writes a breakpoint
//!    over each of the probe's nops.
//! 4. A CPU that hits it traps; [`trap`] tells the kernel's handler to resume in the site's cold
//!    block; that evaluates the arguments and leaves through a thunk that preserves every register
//!    to [`fire`](mod@fire), which calls the framework.
//!
//! # Probe context
//!
//! What runs between a hit and the end of recording may run anywhere: interrupts off, any lock held,
//! inside another trap. It takes no lock, allocates nothing and calls nothing that can be probed. The
//! documentation of every function that runs there says so. An argument expression is the exception:
//! it is the firing function's own code and runs in that function's context.
#![cfg_attr(not(test), no_std)]
#![warn(missing_debug_implementations)]

pub mod arch;
pub mod arg;
#[cfg(sdt_route = "registry")]
pub mod attach;
#[doc(hidden)]
pub mod capture;
#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
pub mod dtrace;
pub mod encode;
#[cfg(sdt_route = "registry")]
pub mod fire;
#[cfg(sdt_route = "freebsd")]
pub use freebsd::native::fire;
#[cfg(sdt_route = "illumos")]
pub use illumos::native::fire;
#[cfg(all(
    sdt_route = "registry",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
pub mod frames;
#[cfg(target_os = "freebsd")]
pub mod freebsd;
pub mod hit;
#[cfg(target_os = "illumos")]
pub mod illumos;
pub mod layout;
#[cfg(any(test, target_os = "freebsd", target_os = "illumos"))]
mod line;
pub mod name;
#[cfg(sdt_route = "registry")]
#[doc(hidden)]
pub mod open;
#[cfg(sdt_route = "freebsd")]
#[doc(hidden)]
pub use freebsd::native::open;
#[cfg(sdt_route = "illumos")]
#[doc(hidden)]
pub use illumos::native::open;
pub mod ops;
#[cfg(sdt_route = "registry")]
pub mod patch;
#[cfg(sdt_route = "registry")]
mod provider;
#[cfg(sdt_route = "registry")]
pub mod record;
#[cfg(sdt_route = "freebsd")]
pub use freebsd::native::record;
#[cfg(sdt_route = "illumos")]
pub use illumos::native::record;
#[cfg(sdt_route = "registry")]
pub mod trap;

/// Locks for a module's own state; the ones this crate uses itself.
pub mod sync {
    pub use spin::Mutex;
}

pub use sdt_macros::{sdt_enabled, sdt_probe, sdt_provider};

/// What the macros expand to. No part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use linkme;
    pub use sdt_macros::{__SdtProvider, __sdt_expand};

    use core::ffi::CStr;

    use crate::arg::Argument;

    /// The C string in text that ends with a NUL and has no other.
    pub const fn c_str(text: &'static str) -> &'static CStr {
        match CStr::from_bytes_with_nul(text.as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("one NUL, at the end"),
        }
    }

    /// An argument of an open provider's probe. What is none is an error at its expression.
    #[inline(always)]
    pub fn argument<A: Argument>(arg: A) -> A {
        arg
    }

    /// An argument while its probe fires.
    #[derive(Debug)]
    pub struct Held<A: Argument>(A::Held);

    impl<A: Argument> Held<A> {
        /// Holds an argument.
        #[inline(always)]
        pub fn new(arg: A) -> Self {
            Self(arg.hold())
        }

        /// The word for the framework.
        #[inline(always)]
        pub fn word(&self) -> u64 {
            A::word(&self.0)
        }
    }
}
