//! The machine: everything that depends on the architecture.
//!
//! Each architecture's module offers the same names: `cpu` (number, interrupt flag), `layout` (where memory is mapped),
//! `switch_tables`, `power`, `timer`, `uart`, `TrapFrame`, and the inter-processor interrupts. The boot code is in
//! [`start`](crate::start), the trap handlers in [`traps`](crate::traps).

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
