//! The machine-independent illumos half of the stand-in kernel: krtld, which loads modules, `modctl.c`, which installs
//! and removes them, and `sdt`, which creates probes for the sites that krtld has found.
//!
//! This crate behaves like illumos-gate of February 2025. We have run the code of illumos-gate on the same modules: this kernel
//! prints the same messages about broken modules (with `moddebug` 0x40000000, which makes illumos print all reasons). If illumos
//! would load a module that corrupts the kernel, this kernel refuses the module with a reason.
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
