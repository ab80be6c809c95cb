//! What FreeBSD's half of the stand-in kernel and illumos's both stand on: the image of a module as it is mapped, and the
//! `printf` of their kernels.
#![cfg_attr(not(any(test, feature = "fixture")), no_std)]

extern crate alloc;

#[cfg(feature = "fixture")]
pub mod fixture;
pub mod image;
pub mod printf;
