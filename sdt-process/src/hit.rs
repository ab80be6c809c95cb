//! The hit that the current thread is recording.
//!
//! The state is thread-local. It is neither allocated nor dropped, so signal handlers can use it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::borrowed::Arguments;

/// A hit that a thread is recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    /// The address of the [`Slots`](crate::slots::Slots) that the hit uses.
    pub(crate) slots: *const (),
    /// The slot, or the number of slots if the hit has none.
    pub(crate) slot: usize,
    /// The number of hits of this thread that this one has interrupted. As long as `errno`, so that there is no padding in between.
    pub(crate) depth: u32,
    /// `errno` before the hit.
    pub(crate) errno: libc::c_int,
    /// The end of the alternate signal stack that the hit is on, if it is on one.
    pub(crate) alternate_end: Option<usize>,
    /// The arguments, which may be addresses of memory that the site borrows until the hit is recorded.
    pub(crate) arguments: Arguments,
}

impl Hit {
    const NONE: Self = Self {
        slots: std::ptr::null(),
        slot: 0,
        depth: 0,
        errno: 0,
        alternate_end: None,
        arguments: Arguments::NONE,
    };
}

/// A place for a hit. A signal handler that interrupts a change sees no hit, and never parts of two.
struct Current {
    is_set: Cell<bool>,
    hit: Cell<Hit>,
}

impl Current {
    #[inline(always)]
    fn get(&self) -> Option<Hit> {
        self.is_set.get().then(|| self.hit.get())
    }

    #[inline(always)]
    fn set(&self, hit: Option<Hit>) {
        self.is_set.set(false);
        if let Some(hit) = hit {
            // Signal handlers of this thread see the stores in this order.
            compiler_fence(Ordering::SeqCst);
            self.hit.set(hit);
            compiler_fence(Ordering::SeqCst);
            self.is_set.set(true);
        }
    }
}

thread_local! {
    /// The innermost hit of this thread.
    static CURRENT: Current = const { Current { is_set: Cell::new(false), hit: Cell::new(Hit::NONE) } };
    /// Whether hits of functions by this thread come from a recording.
    static RECORDS: Cell<bool> = const { Cell::new(false) };
    /// The number of this thread; 0 until [`thread_number`] assigns one.
    static NUMBER: AtomicU64 = const { AtomicU64::new(0) };
}

/// Returns the hit that this thread is recording.
#[inline(always)]
pub(crate) fn current() -> Option<Hit> {
    CURRENT.with(Current::get)
}

/// Sets the hit that this thread is recording.
#[inline(always)]
pub(crate) fn set_current(hit: Option<Hit>) {
    CURRENT.with(|current| current.set(hit));
}

/// Returns whether this thread is recording a hit. A signal handler that sees `true` has interrupted the recording.
pub(crate) fn in_probe_context() -> bool {
    current().is_some()
}

/// Sets whether this thread records a hit of a function, or a sample. Returns the value before. Meanwhile, its hits of functions are in
/// functions that the recording calls, and nothing is recorded.
#[inline(always)]
pub(crate) fn set_records(records: bool) -> bool {
    RECORDS.replace(records)
}

/// Returns the value that [`set_records`] has set.
pub(crate) fn records() -> bool {
    RECORDS.get()
}

/// Returns the number of hits that the current one has interrupted.
pub(crate) fn depth() -> u8 {
    current().map_or(0, |hit| u8::try_from(hit.depth).unwrap_or(u8::MAX))
}

/// Returns a number, from 1, that no other thread of this process has or has had.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NUMBER.with(|number| {
        let own = number.load(Ordering::Relaxed);
        if own != 0 {
            return own;
        }
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        // A signal handler may have assigned a number since the load.
        match number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(own) => own,
        }
    })
}

/// Returns the address of a thread-local variable of this thread. It is above all frames of the thread if the C library places
/// thread-local variables above the stack, as glibc and musl do for all threads except the first.
pub(crate) fn thread_local_address() -> usize {
    CURRENT.with(|current| std::ptr::from_ref(current).addr())
}
