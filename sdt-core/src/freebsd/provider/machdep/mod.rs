//! What differs by architecture in FreeBSD's kernel: the trap frame, what a breakpoint handler returns, and
//! how text is written.
//!
//! Each file has `TrapFrame`, [`redirect`], [`is_writable`], [`store`] and [`on_this_cpu`].

#[cfg_attr(target_arch = "x86_64", path = "amd64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arm64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv.rs")]
mod target;
pub(super) use target::{TrapFrame, is_writable, on_this_cpu, redirect, store};
