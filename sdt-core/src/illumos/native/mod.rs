//! The native route: krtld and sdt find the module's probes in its calls of functions that are not there.
//!
//! What C's `DTRACE_PROBEn` emit (`usr/src/uts/common/sys/sdt.h`), the macros emit here, from assembly: see the sites
//! in `arch/x86_64/illumos.rs`. The module does not depend on `drv/dtrace`, keeps its fbt probes, loads where there is no
//! DTrace, and has nothing to call.
//!
//! A provider that illumos knows (`proc`, `io`, `ip` and so on) is that one; probes of all others are listed under
//! `sdt`, with the provider's name in front of their own: those of two providers are never one. Their module is the file's
//! name, their function the one that fires. Arguments have no types: D programs cast
//! `arg0` to `arg9`.

mod enabled;
pub(crate) mod fire;
pub(crate) mod open;
pub(crate) mod record;

pub use enabled::Probes;
