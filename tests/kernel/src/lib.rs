//! The parts of the stand-in kernel that do not need a real machine, so that ordinary unit tests can test them.
//!
//! The stand-in kernel is a test bench for modules: it behaves like FreeBSD ([`stand_in_freebsd`]) or illumos
//! ([`stand_in_illumos`]).
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod addresses;
pub mod memory;
