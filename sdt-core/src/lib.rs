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
//! Needs Rust 1.95 or later. A disabled probe is a nop on x86_64, aarch64 and riscv64; on other processors, it tests a flag.
//!
//! # What this is
//!
//! This crate is the part of the tracing system that is linked into the traced image: declarations, firing sites, and
//! the connection to DTrace. A site is one nop, and a record of its address in a linker set. While a probe is disabled,
//! a site adds only this nop to its function: no load, no compare, no additional register. Arguments are evaluated only
//! while the probe is enabled, in a cold block to which the patched nop jumps.
//!
//! # What it is not
//!
//! This crate does not record hits or run D programs. The framework does: DTrace on FreeBSD and illumos,
//! `sdt-framework` in kernels without DTrace. This crate allocates no memory and starts no threads.
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
//! These settings are deliberately not Cargo features. Cargo unites the features that all crates of a build request, so
//! a single crate could change all probes of the module. Only `build.rs` of this crate reads them.
//!
//! # Without probes
//!
//! With feature `off`, the compiler still checks the names, numbers and types of arguments, but probes leave nothing in
//! the image: no nop, no record, no code. [`attach`] then registers nothing. Only the crate that builds the image
//! should enable `off`, by a feature of its own, because a library would disable the probes of the whole image.
//!
//! # Programs on Linux
//!
//! With feature `stapsdt`, the probes of a Linux program are also in its section `.note.stapsdt`, with semaphores.
//! `bpftrace -l 'usdt:./program:*'`, `perf` and `stap` find them there: `proc::exec_success` is `proc:exec_success`. A
//! site evaluates its arguments while such a tracer uses the probe, or while it is enabled in the framework. Each site
//! costs an additional load and test. The feature works on x86_64, aarch64 and riscv64. On other architectures, in
//! kernels and with feature `off` it adds nothing.
//!
//! # Processors without compare-and-swap
//!
//! On processors without compare-and-swap, such as the Cortex-M0, this crate uses the atomics of `portable-atomic`. The
//! program selects their implementation by a feature of that crate: `critical-section` or `unsafe-assume-single-core`.
//!
//! # Further documentation
//!
//! - To add probes to a crate: [`sdt_provider!`], [`sdt_probe!`], [`sdt_enabled!`]. [`arg`] lists the types of
//!   arguments, and [`layout`] describes structs for D programs.
//! - To build a kernel module: `freebsd` and `illumos` (each is compiled for its system only), and the example module.
//! - For probes that only become known at run time (on the provider route): [`runtime`].
//! - To host a framework (on the provider route): [`attach`], [`ops`], [`patch`], [`trap`], [`site`], [`frames`].
//! - How it works inside: `docs/architecture.md` of the project.
//!
//! # What callers promise
//!
//! No safe function of this crate can cause undefined behaviour. This does not hold for hidden items, for names that begin with
//! `__`, and for a `crate = path` that imitates this crate: code must not name them. The few `unsafe` functions and traits document what a host
//! must guarantee:
//!
//! - [`attach::attach`]: the breakpoint handler is installed before, and the image is not unloaded before
//!   [`attach::detach`] has succeeded.
//! - [`patch::Patcher`]: its functions write text as documented.
//! - [`patch::set_mode`]: the caller is allowed to call the patcher.
//! - [`ops::Framework`]: an implementation calls the ops of a provider as documented, and no longer than it is registered.
//!   [`register`](ops::Framework::register): the functions of the ops table stay loaded until the provider is unregistered.
//!   [`hit`](ops::Framework::hit): only the ops of the probe change its id, and borrowed memory stays mapped.
//! - `runtime::Provider::open_with`: the image is not unloaded before the provider is closed.
//! - Parts for hosts, in [`frames`], `patch::machine` and `patch::protocol`: each function states the addresses and the context
//!   for which it may be called.
//!
//! # Probe context
//!
//! Code between a hit and the end of its recording is in probe context. It may run anywhere: with interrupts off, with
//! any lock held, inside another trap. It must not take a lock, allocate memory, or call a function that can contain a
//! probe. The documentation of each function states whether it may be called in probe context. Argument expressions are
//! an exception: they are code of the firing function, and run in its context.
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
