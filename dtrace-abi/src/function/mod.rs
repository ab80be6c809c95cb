//! Instructions at the boundaries of functions, for each architecture: those that a kernel can emulate.
//!
//! A function probe replaces one instruction by a breakpoint: the first one of a function, or one that leaves it. The
//! breakpoint handler records the hit, emulates the replaced instruction, and continues after it. This needs neither
//! single-stepping nor memory that is writable and executable.
//!
//! The consumer and the kernel decode with the same functions: the consumer to choose sites, the kernel to decide from its
//! own bytes whether it accepts them. So a consumer cannot make a kernel emulate another instruction than the replaced one.
//!
//! Only instructions that cannot fault are in the list: they use registers, immediates, the stack at the
//! stack pointer and in the red zone below it, and the image's own table of the functions of other images.
//! The emulators are safe functions of the registers and a [`Stack`], so that they can be tested on any machine.

pub mod aarch64;
mod path;
pub mod riscv64;
mod stack;
mod window;
pub mod x86_64;

pub use path::first_crate;
pub use stack::Stack;
pub use window::Window;

/// The length in bytes of the longest instruction that can be emulated, on any architecture.
pub const MAX_LEN: usize = 15;
