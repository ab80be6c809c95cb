//! The stand-in kernel.
#![cfg_attr(not(test), no_std)]
