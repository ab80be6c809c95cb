//! Atomics and cells. For a processor without compare-and-swap, the atomics are those of `portable-atomic`.
//!
//! The tests compile modules of this crate a second time with a `sync` module of loom's types. So loom explores the
//! same code that runs in a kernel.

/// The atomic in which a provider keeps the id of an enabled probe, as [`hit`](sdt_core::ops::Framework::hit) takes it.
pub(crate) use core::sync::atomic::AtomicU32 as AtomicId;
pub(crate) use core::sync::atomic::Ordering;
#[cfg(target_has_atomic = "ptr")]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

#[cfg(not(target_has_atomic = "ptr"))]
pub(crate) use portable_atomic::{AtomicBool, AtomicU32, AtomicUsize};

/// A counter of events. Without 64-bit atomics, it has the size of a word, and wraps.
#[cfg(target_has_atomic = "64")]
pub(crate) type Count = u64;
/// A counter of events on targets without 64-bit atomics.
#[cfg(not(target_has_atomic = "64"))]
pub(crate) type Count = usize;

/// Converts a counter to 64 bits.
#[allow(clippy::unnecessary_cast, reason = "not where a count is a word of 32 bits")]
pub(crate) const fn widen(count: Count) -> u64 {
    count as u64
}

/// A [`Count`] that CPUs share.
#[cfg(target_has_atomic = "64")]
pub(crate) type AtomicCount = core::sync::atomic::AtomicU64;
/// A [`Count`] that CPUs share.
#[cfg(not(target_has_atomic = "64"))]
pub(crate) type AtomicCount = AtomicUsize;

/// `core::cell::UnsafeCell` with loom's interface.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Declares a function that is `const`, except with loom, whose types have no const `new`.
macro_rules! const_fn {
    ($(#[$attr:meta])* $vis:vis fn $name:ident() -> $ret:ty $body:block) => {
        $(#[$attr])* $vis const fn $name() -> $ret $body
    };
}
pub(crate) use const_fn;
