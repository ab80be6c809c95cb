//! The parts that both halves of the stand-in kernel, FreeBSD's and illumos's, use: the image of a module as it is mapped, and the
//! `printf` of their kernels.
#![cfg_attr(not(any(test, feature = "fixture")), no_std)]

extern crate alloc;

#[cfg(feature = "fixture")]
pub mod fixture;
pub mod image;
pub mod memory;
pub mod printf;
