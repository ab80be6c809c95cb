//! The machine: what differs from one architecture to the next.
//!
//! Each architecture's module offers the same names: `cpu` (number, interrupt flag), `exports` (symbols
//! that only this architecture has), `layout` (where memory is mapped), `switch_tables`, `power`, `text` (what it takes
//! for text that was stored to be executed), `timer`, `uart`, the
//! inter-processor interrupts, and the two steps of setting the machine up.

pub(crate) mod paging;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
