//! The native route: krtld and sdt find the module's probes by its calls of undefined functions.
//!
//! The macros emit the same as C's `DTRACE_PROBEn` (`usr/src/uts/common/sys/sdt.h`), but as assembly: see the sites in
//! `arch/x86_64/illumos.rs`. The module does not depend on `drv/dtrace`, keeps its fbt probes, and loads without
//! DTrace.
//!
//! Probes of a provider that illumos knows (`proc`, `io`, `ip` and so on) belong to it. Probes of all other providers
//! belong to `sdt`, and their names begin with the name of the provider, so that probes of two providers cannot
//! collide. Their module is the name of the file, their function the one that fires. Arguments have no types: D
//! programs cast `arg0` to `arg9`.

mod enabled;
pub(crate) mod fire;
pub(crate) mod open;
pub(crate) mod record;

pub use enabled::Probes;
