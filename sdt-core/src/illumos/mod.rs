//! illumos: the parts of the kernel's module interface that a module in Rust needs. x86_64.
//!
//! A module invokes [`illumos_module!`](crate::illumos_module) once. `SDT_ROUTE` selects the route of its probes to the
//! kernel's DTrace:
//!
//! | route | the probes are | needs |
//! |---|---|---|
//! | `native` (default) | made by krtld and `sdt` from the module's calls, as those of C are; under `sdt`, or a provider that illumos knows | nothing: the module loads without DTrace |
//! | `provider` | registered with `dtrace_register`: names, types, stability and privileges are the module's own | a companion, see [`illumos_companion!`](crate::illumos_companion), and `drv/dtrace` for that |

pub(crate) mod companion;
pub mod console;
pub(crate) mod module;
#[cfg(sdt_route = "native")]
pub(crate) mod native;
#[cfg(sdt_route = "provider")]
pub(crate) mod provider;

pub use crate::errno::Errno;
pub use module::{Command, DevInfo, DevOps, Entry, Module};
