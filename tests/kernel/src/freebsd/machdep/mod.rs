//! The architecture-specific parts of FreeBSD: the symbols, and writing to text.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{overwrite, table, variables};

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub(super) use riscv64::{overwrite, table, variables};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{overwrite, table, variables};
