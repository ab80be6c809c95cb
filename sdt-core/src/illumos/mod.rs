//! illumos: the routes by which a module's probes reach its kernel's DTrace, and the parts of the kernel's module
//! interface that a module in Rust needs. x86_64.
//!
//! A module says [`illumos_module!`](crate::illumos_module) once.

pub mod console;
pub mod exec;
pub mod module;
#[cfg(sdt_route = "illumos")]
pub mod native;

#[cfg(sdt_route = "illumos")]
pub use native as route;

pub use module::{Errno, Module};
