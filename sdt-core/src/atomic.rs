//! Atomics that change in one step: where a processor has none of its own, `portable-atomic` makes them of what it has, as
//! the program says that is built for it.

#[cfg(target_has_atomic = "ptr")]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};
#[cfg(not(target_has_atomic = "ptr"))]
pub(crate) use portable_atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};
