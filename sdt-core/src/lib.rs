//! Statically defined tracing for Rust kernels.
#![cfg_attr(not(test), no_std)]

pub mod ops;
