//! FreeBSD: the parts of the kernel's module interface that a module in Rust needs.
//!
//! A module invokes [`freebsd_module!`](crate::freebsd_module) once and calls no other function. Two variables of the
//! build's environment select the kernel: `SDT_FREEBSD` is the release (10 to 15, or an exact `__FreeBSD_version`; 15
//! by default), and `SDT_ROUTE` is the route of its probes to the kernel's DTrace:
//!
//! | route | the probes are | needs |
//! |---|---|---|
//! | `native` (default) | found by the kernel's sdt in the module's file, as those of C are | nothing: the module loads without DTrace |
//! | `provider` | registered with `dtrace_register`: stability, privileges and the module's own patching | `dtrace.ko`, FreeBSD 11 |

pub mod console;
mod cpu;
pub(crate) mod module;
#[cfg(sdt_route = "native")]
pub(crate) mod native;
#[cfg(sdt_route = "provider")]
pub(crate) mod provider;

pub use crate::errno::Errno;
pub use module::{Module, VERSION};
