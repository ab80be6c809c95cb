//! Atomic types with read-modify-write operations. On processors without such instructions, `portable-atomic` provides
//! them, as the program configures it.

#[cfg(target_has_atomic = "ptr")]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};
#[cfg(not(target_has_atomic = "ptr"))]
pub(crate) use portable_atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};
