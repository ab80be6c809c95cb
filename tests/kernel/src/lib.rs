//! The stand-in kernel's machine, as far as it can be tested apart from one.
//!
//! The kernel is a test bench. It plays FreeBSD's part to modules ([`stand_in_freebsd`]), or illumos's
//! ([`stand_in_illumos`]).
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod addresses;
pub mod memory;
