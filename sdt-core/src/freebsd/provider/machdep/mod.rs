//! The parts of FreeBSD's kernel that differ between architectures: the trap frame, the result of a breakpoint handler,
//! and the writing of text.
//!
//! Each file has `TrapFrame`, [`redirect`], [`is_writable`], [`store`] and [`on_this_cpu`].

#[cfg_attr(target_arch = "x86_64", path = "amd64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arm64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv.rs")]
mod target;
pub(super) use target::{TrapFrame, is_writable, on_this_cpu, redirect, store};
