//! The probes of the provider `dtrace`, which fire for one consumer at a time: BEGIN, END and ERROR.

use crate::base::sync::{AtomicU32, Ordering};

/// One of the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Begin,
    End,
    Error,
}

/// Their numbers, which are consecutive.
pub(crate) struct OwnProbes(AtomicU32);

/// They are not registered: no number of a probe is one of three from here.
const NONE: u32 = u32::MAX - 3;
/// The state while a thread registers them; otherwise like [`NONE`].
const REGISTERING: u32 = NONE - 3;

impl OwnProbes {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// The number of one, if they are registered. Probe context.
    pub(crate) fn id(&self, own: Own) -> Option<u32> {
        let first = Some(self.0.load(Ordering::Relaxed)).filter(|first| *first < REGISTERING)?;
        Some(first + own as u32)
    }

    /// Returns whether this is the number of one. Probe context.
    pub(crate) fn is(&self, id: u32) -> bool {
        id.wrapping_sub(self.0.load(Ordering::Relaxed)) < 3
    }

    /// Claims them for the thread that registers them; `false` if they are registered, or claimed by another thread.
    pub(crate) fn claim(&self) -> bool {
        self.0.compare_exchange(NONE, REGISTERING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The thread that has claimed them has registered them, and this is the number of the first; or has failed.
    pub(crate) fn set(&self, first: Option<u32>) {
        self.0.store(first.unwrap_or(NONE), Ordering::Relaxed);
    }
}
