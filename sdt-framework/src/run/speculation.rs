//! Speculations: provisional records of several CPUs, until they are committed or discarded (`dtrace_speculation_*`, dtrace.c).
//!
//! Each CPU has a buffer for each speculation, which it alone writes to, in probe context. Which CPUs have used theirs
//! only the state says, roughly: none, one, or several. What one CPU has recorded it commits by itself. What several have
//! stays where it is until the consumer's thread, which has waited for all CPUs to leave probe context, has
//! [cleaned](Speculation::begin_cleaning) it away: into the snapshot of each CPU if it was committed.

use crate::base::sync::{AtomicU32, Ordering};

/// Free.
const INACTIVE: u32 = 0;
/// A program has it, and nothing was recorded.
const ACTIVE: u32 = 1;
/// One CPU has recorded something.
const ACTIVE_ONE: u32 = 2;
/// Several may have.
const ACTIVE_MANY: u32 = 3;
/// A CPU commits what it alone has recorded.
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

/// Why no speculation was given to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Some speculations are being cleaned.
    Busy,
    /// Programs have them all.
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

    /// Goes from a state, which has been loaded with Acquire when `next` looks at what belongs to it, to that which `next`
    /// says, if it says one; returns the one before. Probe context.
    fn turn(&self, next: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
    }

    /// Gives a program one of them, its number counted from 1. Probe context.
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

    /// Returns whether a CPU may record: something `is_there` already in its buffer, or not. Probe context.
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

    /// Discards: whether the CPU is to empty its buffer. Probe context.
    ///
    /// It is emptied before another program can have the speculation: `empty` is called in between.
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

    /// The consumer's thread, one at a time: whether there is something to clean. It then waits until every CPU has been
    /// outside probe context.
    pub(crate) fn begin_cleaning(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let is_over = matches!(state, COMMITTING_MANY | DISCARDING);
        self.cleaning.store(if is_over { state } else { INACTIVE }, Ordering::Relaxed);
        is_over
    }

    /// Returns the state to clean after the wait: no CPU uses its buffer of it any more.
    pub(crate) fn cleaning(&self) -> Option<Cleaning> {
        match self.cleaning.load(Ordering::Relaxed) {
            COMMITTING_MANY => Some(Cleaning::Commit),
            DISCARDING => Some(Cleaning::Discard),
            _ => None,
        }
    }

    /// All buffers of it are empty: it can be given to a program again.
    pub(crate) fn cleaned(&self) {
        self.cleaning.store(INACTIVE, Ordering::Relaxed);
        // Release: who gets it finds the buffers empty.
        self.state.store(INACTIVE, Ordering::Release);
    }
}
