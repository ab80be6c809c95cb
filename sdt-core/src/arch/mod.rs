//! What differs by architecture: the site's instruction, the breakpoint over it, and the thunks
//! through which a cold block leaves.
//!
//! Each architecture is one file with the same items: the macros `__sdt_site!`, `__sdt_call!` and
//! `__sdt_evaluate!`, which expand in the crate that fires, and [`ENCODING`], [`SITE_LEN`],
//! [`BREAKPOINT_LEN`], [`thunk`], [`evaluate_thunk`], [`fire_at`] and [`args_of_hit`].

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("sdt-core has firing sites for x86_64 only so far");
