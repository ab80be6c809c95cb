//! The probes of the provider `dtrace`, which fire for one consumer at a time: BEGIN, END and ERROR.

use crate::base::sync::{AtomicU32, Ordering};

/// A probe of the provider `dtrace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Begin,
    End,
    Error,
}

/// The number of the first of the three probes. Their numbers are consecutive.
pub(crate) struct OwnProbes(AtomicU32);

/// The value while the probes are not registered. No probe has this number or one of the next two.
const NONE: u32 = u32::MAX - 3;
/// The state while a thread registers them; otherwise like [`NONE`].
const REGISTERING: u32 = NONE - 3;

impl OwnProbes {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// Returns the number of a probe, if the probes are registered. Probe context.
    pub(crate) fn id(&self, own: Own) -> Option<u32> {
        let first = Some(self.0.load(Ordering::Relaxed)).filter(|first| *first < REGISTERING)?;
        Some(first + own as u32)
    }

    /// Returns whether `id` is the number of one of these probes. Probe context.
    pub(crate) fn is(&self, id: u32) -> bool {
        id.wrapping_sub(self.0.load(Ordering::Relaxed)) < 3
    }

    /// Claims the registration of the probes for the calling thread. Returns `false` if they are registered, or another
    /// thread has claimed it.
    pub(crate) fn claim(&self) -> bool {
        self.0.compare_exchange(NONE, REGISTERING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ends the registration: `first` is the number of the first probe, or `None` if the registration has failed.
    /// Called by the thread that has claimed it.
    pub(crate) fn set(&self, first: Option<u32>) {
        self.0.store(first.unwrap_or(NONE), Ordering::Relaxed);
    }
}
