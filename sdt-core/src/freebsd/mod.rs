//! FreeBSD: the routes by which a module's probes reach its kernel's DTrace, and the parts of the kernel's
//! module interface that a module in Rust needs.
//!
//! A module says [`freebsd_module!`](crate::freebsd_module) once and has nothing to call. What it is built for,
//! the build decides: `SDT_FREEBSD` is the release (10 to 15, or an exact `__FreeBSD_version`; 15 if it is not
//! set), and feature `own-provider` the route:
//!
//! | route | the probes are | needs |
//! |---|---|---|
//! | native (default) | found by the kernel's sdt in the module's file, as those of C are | nothing: the module loads without DTrace |
//! | own provider | registered with `dtrace_register`: stability, privileges and the module's own patching | `dtrace.ko`, FreeBSD 11 |

pub mod console;
mod cpu;
pub mod eventhandler;
pub mod exec;
pub mod module;
#[cfg(sdt_route = "freebsd")]
pub mod native;
#[cfg(sdt_route = "registry")]
pub mod own;

#[cfg(sdt_route = "freebsd")]
pub use native as route;
#[cfg(sdt_route = "registry")]
pub use own as route;

pub use module::{Errno, Module};
