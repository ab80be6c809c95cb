//! illumos: the routes by which a module's probes reach its kernel's DTrace, and the parts of the kernel's module
//! interface that a module in Rust needs. x86_64.
//!
//! A module says [`illumos_module!`](crate::illumos_module) once. Feature `own-provider` chooses the route:
//!
//! | route | the probes are | needs |
//! |---|---|---|
//! | native (default) | made by krtld and `sdt` from the module's calls, as those of C are; under `sdt`, or a provider that illumos knows | nothing: the module loads without DTrace |
//! | own provider | registered with `dtrace_register`: names, types, stability and privileges are the module's own | a [`companion`] module, and `drv/dtrace` for that |

pub mod companion;
pub mod console;
pub mod exec;
pub mod module;
#[cfg(sdt_route = "illumos")]
pub mod native;

#[cfg(sdt_route = "registry")]
pub mod own;

#[cfg(sdt_route = "illumos")]
pub use native as route;
#[cfg(sdt_route = "registry")]
pub use own as route;

pub use module::{Errno, Module};
