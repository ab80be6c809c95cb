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
//! # What this is
//!
//! The part of a traced image that is in the image: declarations, firing sites, and what ties them to DTrace. A site
//! is one nop and a record of where it is, in a linker set. While its probe is disabled, a function with a site is
//! the function without it and that one nop: no load, no compare, no register set up or saved. Arguments are
//! evaluated when the probe is enabled, in a cold block that the patched nop leads to.
//!
//! # What it is not
//!
//! It records nothing and runs no D: that is the framework's part, DTrace's in FreeBSD and illumos, `sdt-framework`'s in
//! kernels that have none. It allocates nothing, and starts nothing by itself.
//!
//! # Two routes
//!
//! | `SDT_ROUTE` | the probes are | for |
//! |---|---|---|
//! | `native` | found by the kernel's own sdt in the module's file, as those of C are | FreeBSD, illumos: the default |
//! | `provider` | registered by the image itself: with `dtrace_register`, or with the framework it hosts | stability, privileges and types of its own on FreeBSD and illumos; every other kernel |
//!
//! The code that declares and fires is the same. The build chooses: set `SDT_ROUTE`, and with it `SDT_PATCH` (`trap`,
//! `jump`, `gate`) and `SDT_FREEBSD` (10 to 15, or an exact `__FreeBSD_version`), in the environment of cargo, or once
//! for a project in its `.cargo/config.toml`:
//!
//! ```toml
//! [env]
//! SDT_ROUTE = "provider"
//! SDT_PATCH = "jump"
//! ```
//!
//! They are no features on purpose. Cargo joins the features that all crates of a build ask for, and one crate would
//! change how every probe of the module works. `build.rs` of this crate is the only place that reads them.
//!
//! # Without probes
//!
//! With feature `off` names, numbers and types of arguments are checked as ever, and nothing is left of a probe: no nop,
//! no record, no code. [`attach`] finds nothing to register. It is for the crate that makes the image to switch on, by a
//! feature of its own; a library would switch it on for the whole image.
//!
//! # Programs on Linux
//!
//! With feature `stapsdt` the same probes are in a Linux program's `.note.stapsdt`, where `bpftrace -l 'usdt:./program:*'`, `perf`
//! and `stap` find them, with semaphores: `proc::exec_success` is `proc:exec_success` there. Arguments are evaluated while such a
//! tracer wants the probe, or the framework. A site costs a load and a test more. It is for x86_64, aarch64 and riscv64; elsewhere,
//! in kernels and with feature `off` it leaves nothing.
//!
//! # Processors without compare-and-swap
//!
//! A Cortex-M0, for one: `portable-atomic` makes up for it there, and there alone. The program chooses how, by a feature of that
//! crate: `critical-section`, or `unsafe-assume-single-core`.
//!
//! # Where to read on
//!
//! - To put probes into a crate: [`sdt_provider!`], [`sdt_probe!`], [`sdt_enabled!`]; [`arg`] is what they can carry,
//!   [`layout`] what D can look into.
//! - To make a kernel module of it: `freebsd`, `illumos`, each compiled for its system; and the example module.
//! - For probes that only become known at run time (on the provider route): [`runtime`].
//! - To host a framework (on the provider route): [`attach`], [`ops`], [`patch`], [`trap`], [`site`], [`frames`].
//! - How it works inside: `docs/architecture.md` of the project.
//!
//! # What callers promise
//!
//! No safe function of this crate can cause undefined behaviour. The few `unsafe` functions and traits document what a host
//! must guarantee:
//!
//! - [`attach::attach`]: the breakpoint handler is there before, and the image stays until after [`attach::detach`].
//! - [`patch::Patcher`]: text is written as it says.
//! - [`patch::set_mode`]: who may call it, and where.
//! - [`ops::Framework::register`]: the functions of the table stay.
//!
//! # Probe context
//!
//! What runs between a hit and the end of recording may run anywhere: interrupts off, any lock held,
//! inside another trap. It takes no lock, allocates nothing and calls nothing that can be probed. The
//! documentation of every function that runs there says so. An argument expression is the exception:
//! it is the firing function's own code and runs in that function's context.
#![cfg_attr(not(test), no_std)]
#![warn(missing_debug_implementations)]

mod allocator;
mod arch;
pub mod arg;
#[cfg(sdt_route = "provider")]
mod atomic;
mod capture;
mod describe;
#[cfg(any(target_os = "illumos", all(target_os = "freebsd", sdt_route = "provider")))]
mod dtrace;
#[cfg(any(test, target_os = "freebsd", target_os = "illumos"))]
mod errno;
#[cfg(target_os = "freebsd")]
pub mod freebsd;
#[cfg(target_os = "freebsd")]
use freebsd as os;
mod hit;
#[cfg(target_os = "illumos")]
pub mod illumos;
#[cfg(target_os = "illumos")]
use illumos as os;
pub mod layout;
#[cfg(any(test, target_os = "freebsd", target_os = "illumos"))]
mod line;
pub mod name;
pub mod ops;
mod promise;
mod reserved;
mod stap;
pub mod sync;
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")),
    path = "thunk_portable.rs"
)]
mod thunk;

#[doc(hidden)]
#[path = "internals.rs"]
pub mod __private;

// Each route is one module, and has `fire`, `open` and `record`.
#[cfg(sdt_route = "native")]
use os::native as route;
#[cfg(sdt_route = "provider")]
#[path = "provider/mod.rs"]
mod route;
use route::{fire, record};

#[cfg(sdt_route = "provider")]
pub use route::declared::{Declared, declared};
#[cfg(sdt_route = "provider")]
pub use route::{attach, frames, patch, runtime, site, trap};

pub use record::{Probe, Provider};
pub use sdt_macros::{sdt_enabled, sdt_probe, sdt_provider, sdt_translator};
