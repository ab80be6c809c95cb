//! The example kernel module.
#![no_std]
