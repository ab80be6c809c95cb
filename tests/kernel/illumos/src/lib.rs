//! illumos's half of the stand-in kernel, apart from any machine: how krtld loads a module, how `modctl.c` installs and removes
//! it, and how `sdt` makes probes of what krtld has found.
//!
//! Facts are those of illumos-gate of February 2025, whose own code has been tried on the same modules: this one
//! prints the same messages about broken ones (with `moddebug` 0x40000000, which makes illumos print all reasons). If illumos would
//! load a module and be corrupted by it, this one refuses the module and says why.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod errno;
pub mod file;
pub mod marking;
pub mod modctl;
pub mod providers;
pub mod refusal;
pub mod regs;
mod relocate;
pub mod sdt;
#[cfg(test)]
mod tests;

/// The start of the name of every symbol that is a probe (`sdt_prefix`, `krtld/kobj.c`).
pub const PREFIX: &str = "__dtrace_probe_";
