//! The DTrace of FreeBSD and illumos, as a [`Framework`](crate::ops::Framework): `dtrace_register` and its family.
//!
//! Both have the same code, so the prototypes are the same (FreeBSD main:
//! `sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h`, illumos 2025: `usr/src/uts/common/sys/dtrace.h`). A module
//! for FreeBSD depends on `dtrace` and finds them there; on illumos they come from its
//! [companion](crate::illumos_companion).

#[cfg(sdt_route = "provider")]
mod framework;
mod functions;

#[cfg(sdt_route = "provider")]
pub use framework::{Binding, Kernel};
pub use functions::Functions;
