//! The stand-in kernel's portable part: what it does with modules, apart from any machine.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod acpi;
pub mod loader;
pub mod memory;
