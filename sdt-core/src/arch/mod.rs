//! What differs by architecture: the site's instruction, the breakpoint over it, and the thunks
//! through which a cold block leaves.
//!
//! Each architecture is one file with the same items: the macros `__sdt_site!`, `__sdt_call!` and
//! `__sdt_evaluate!`, which expand in the crate that fires, and [`ENCODING`], [`SITE_LEN`],
//! [`BREAKPOINT_LEN`], [`WORD_STRIDE`], [`thunk`], [`evaluate_thunk`], [`fire_at`], [`frame_pointer`],
//! [`NEXT_FRAME`] and [`HIT_SLOTS`].

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod target;
pub use target::*;
