//! Speculations: provisional records of several CPUs, until they are committed or discarded (`dtrace_speculation_*`, dtrace.c).
//!
//! Each CPU has one buffer for each speculation. Only this CPU writes to it, in probe context. Only the state tells how
//! many CPUs have used their buffers: none, one, or several. If only one CPU has recorded data, that CPU commits it
//! itself. Data of several CPUs stays in the buffers until the consumer's thread has waited for all CPUs to leave probe
//! context and [cleans](Speculation::begin_cleaning) it. If the speculation was committed, the data of each CPU becomes
//! part of that CPU's snapshot.

use crate::base::sync::{AtomicU32, Ordering};

/// Free.
const INACTIVE: u32 = 0;
/// A program has taken it, and no CPU has recorded data.
const ACTIVE: u32 = 1;
/// One CPU has recorded something.
const ACTIVE_ONE: u32 = 2;
/// Several CPUs may have recorded data.
const ACTIVE_MANY: u32 = 3;
/// A CPU is committing the data, which only this CPU has recorded.
const COMMITTING: u32 = 4;
/// It was committed, and other CPUs have records of it.
const COMMITTING_MANY: u32 = 5;
/// It was discarded, and CPUs may have records of it.
const DISCARDING: u32 = 6;

/// A speculation.
#[derive(Debug)]
pub(crate) struct Speculation {
    state: AtomicU32,
    /// The state that the consumer's thread found before it waited: `COMMITTING_MANY`, `DISCARDING`, or neither. Only
    /// that thread uses it.
    cleaning: AtomicU32,
}

/// The reason why a program got no speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Some speculations are being cleaned.
    Busy,
    /// Programs use all speculations.
    Unavailable,
}

/// The processing of each CPU's buffer by the consumer's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleaning {
    /// Its records are moved to the consumer's buffer.
    Commit,
    /// Its records are discarded.
    Discard,
}

impl Speculation {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(INACTIVE), cleaning: AtomicU32::new(INACTIVE) }
    }

    /// Changes the state to the result of `next`, unless `next` returns `None`. Returns the previous state, as `Ok` if
    /// it changed. `next` gets a state that was loaded with Acquire, so it may read data that belongs to the
    /// speculation. Probe context.
    fn turn(&self, next: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
    }

    /// Takes a free speculation for a program. Returns its number, from 1. Probe context.
    pub(crate) fn take(all: &[Self]) -> Result<usize, Lack> {
        let mut lack = Lack::Unavailable;
        for (number, one) in (1..).zip(all) {
            match one.turn(|state| (state == INACTIVE).then_some(ACTIVE)) {
                Ok(_) => return Ok(number),
                Err(COMMITTING | COMMITTING_MANY | DISCARDING) => lack = Lack::Busy,
                Err(_) => {}
            }
        }
        Err(lack)
    }

    /// Begins to record data of a CPU. Returns whether the CPU may record. `is_there` returns whether its buffer
    /// already contains data of this speculation. Probe context.
    pub(crate) fn record(&self, is_there: impl Fn() -> bool) -> bool {
        let next = |state| match state {
            ACTIVE => Some(ACTIVE_ONE),
            // The one CPU is this one, or there are two now.
            ACTIVE_ONE if is_there() => Some(ACTIVE_ONE),
            ACTIVE_ONE | ACTIVE_MANY => Some(ACTIVE_MANY),
            _ => None,
        };
        self.turn(next).is_ok()
    }

    /// Commits the speculation. Returns whether the CPU has to move the records of its buffer and then call
    /// [`committed`](Self::committed). Probe context.
    pub(crate) fn commit(&self, is_there: impl Fn() -> bool) -> bool {
        let next = |state| match state {
            ACTIVE => Some(COMMITTING),
            ACTIVE_ONE if is_there() => Some(COMMITTING),
            ACTIVE_ONE | ACTIVE_MANY => Some(COMMITTING_MANY),
            _ => None,
        };
        self.turn(next).is_ok()
    }

    /// Records that this CPU has moved its records. Probe context.
    pub(crate) fn committed(&self) {
        let _ = self.turn(|state| (state == COMMITTING).then_some(INACTIVE));
    }

    /// Discards the speculation. Probe context.
    ///
    /// Calls `empty`, which empties this CPU's buffer, before another program can take the speculation.
    pub(crate) fn discard(&self, is_there: impl Fn() -> bool, empty: impl FnOnce()) {
        let next = |state| match state {
            // Like a commit that moves no records.
            ACTIVE => Some(COMMITTING),
            ACTIVE_ONE if is_there() => Some(COMMITTING),
            ACTIVE_ONE | ACTIVE_MANY => Some(DISCARDING),
            _ => None,
        };
        if self.turn(next).is_ok() {
            empty();
            self.committed();
        }
    }

    /// Begins cleaning. Returns whether there are buffers to clean. Only the consumer's thread calls this, one thread
    /// at a time; it then waits until every CPU has been outside probe context.
    pub(crate) fn begin_cleaning(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let is_over = matches!(state, COMMITTING_MANY | DISCARDING);
        self.cleaning.store(if is_over { state } else { INACTIVE }, Ordering::Relaxed);
        is_over
    }

    /// Returns how to clean the buffers after the wait. No CPU uses its buffer of this speculation any more.
    pub(crate) fn cleaning(&self) -> Option<Cleaning> {
        match self.cleaning.load(Ordering::Relaxed) {
            COMMITTING_MANY => Some(Cleaning::Commit),
            DISCARDING => Some(Cleaning::Discard),
            _ => None,
        }
    }

    /// Makes the speculation available to programs again. All its buffers are empty.
    pub(crate) fn cleaned(&self) {
        self.cleaning.store(INACTIVE, Ordering::Relaxed);
        // Release: the CPU that takes the speculation next sees the buffers empty.
        self.state.store(INACTIVE, Ordering::Release);
    }
}
