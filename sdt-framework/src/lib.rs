//! The in-kernel framework.
#![cfg_attr(not(test), no_std)]
