//! The stand-in kernel's portable part: what it does with modules, apart from any machine.
//!
//! The kernel is a test bench. It plays FreeBSD's part to modules, or illumos's ([`illumos`]): it loads the same
//! files by the same rules, in the same order, with the same messages, and refuses what that system refuses.
//! Where the real kernel would panic or corrupt itself over a bad file, this one refuses the file and goes on.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod acpi;
pub mod addresses;
pub mod eventhandler;
#[cfg(test)]
mod fixture;
pub mod freebsd;
pub mod illumos;
pub mod kld;
pub mod loader;
pub mod memory;
pub mod printf;
