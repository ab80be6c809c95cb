//! Interrupts of this CPU, by architecture.

#[cfg_attr(target_arch = "x86_64", path = "amd64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arm64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv.rs")]
mod target;
pub(crate) use target::{interrupts_off, interrupts_restore};
