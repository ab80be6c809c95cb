//! The handlers of exceptions and interrupts. Each architecture's module offers three names: `init`; `handler`, which returns the
//! address of the function that handles breakpoints; and `FREE_STACK`, the number of bytes below the interrupted stack pointer
//! that the trap handler does not use.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{FREE_STACK, handler, init};

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::{FREE_STACK, handler, init};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{FREE_STACK, handler, init};
