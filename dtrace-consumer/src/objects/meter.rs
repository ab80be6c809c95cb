//! The memory and the work that the files of one process may cost.

use std::cell::{Cell, RefCell};

use super::limits::Limits;
use crate::budget::{Budget, Share, Use};

/// The most steps for one address. A step is a read of debug information, or the comparison of 16 bytes.
const STEPS_OF_ONE: u64 = 1 << 26;
/// The most steps for one process: some twenty seconds at most.
const STEPS_OF_ALL: u64 = 1 << 29;

/// A limit that the files of a process have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// Half of the connection's budget, in bytes.
    Memory(u64),
    /// The steps of one address or of all.
    Steps,
    /// The time for opening and reading a file.
    Wait,
}

/// Counts memory and steps, and refuses more than the limits.
#[derive(Debug)]
pub(super) struct Meter {
    budget: Budget,
    /// Mappings, symbols, and indices of debug information.
    kept: RefCell<Share>,
    /// The bytes of files, which have shares of their own.
    files: Cell<u64>,
    /// The steps that are left for the current address.
    one: Cell<u64>,
    /// The steps that are left for the process.
    all: Cell<u64>,
    exceeded: Cell<Option<Exceeded>>,
    /// The limits of the next file, except its memory.
    limits: Limits,
}

impl Meter {
    pub fn new(budget: &Budget) -> Self {
        Self::with_steps(budget, STEPS_OF_ALL)
    }

    /// Creates a meter with this number of steps.
    pub fn with_steps(budget: &Budget, steps: u64) -> Self {
        Self {
            budget: budget.clone(),
            kept: budget.share(Use::Objects).into(),
            files: Cell::new(0),
            one: Cell::new(0),
            all: Cell::new(steps),
            exceeded: Cell::new(None),
            limits: Limits::new(budget, 0),
        }
    }

    /// Returns what reading the next file may cost.
    pub fn limits(&self) -> Limits {
        Limits { most: self.left(), ..self.limits.clone() }
    }

    /// Begins the work for another address.
    pub fn begin(&self) {
        self.one.set(STEPS_OF_ONE.min(self.all.get()));
    }

    /// Does work with at most `most` steps. Returns the result and the number of steps.
    pub fn within<T>(&self, most: u64, work: impl FnOnce() -> T) -> (T, u64) {
        let before = self.one.get();
        let allowed = before.min(most);
        self.one.set(allowed);
        let result = work();
        let taken = allowed - self.one.get();
        self.one.set(before - taken);
        (result, taken)
    }

    /// Counts steps. Returns `false` if a limit is reached.
    pub fn step(&self, steps: u64) -> bool {
        match (self.one.get().checked_sub(steps), self.all.get().checked_sub(steps)) {
            (Some(one), Some(all)) => {
                self.one.set(one);
                self.all.set(all);
                true
            }
            _ => {
                self.one.set(0);
                self.exceed(Exceeded::Steps);
                false
            }
        }
    }

    /// Returns the bytes that the files may still take: half of the budget is for everything else.
    pub fn left(&self) -> u64 {
        let half = self.budget.limit() / 2;
        half.saturating_sub(self.files.get() + self.kept.borrow().bytes())
    }

    /// Charges memory. Returns `false` if the limit is reached.
    pub fn keep(&self, bytes: u64) -> bool {
        let enough = bytes <= self.left() && self.kept.borrow_mut().add(bytes).is_ok();
        if !enough {
            self.exceed(Exceeded::Memory(self.budget.limit() / 2));
        }
        enough
    }

    /// Releases charged memory.
    pub fn release(&self, bytes: u64) {
        self.kept.borrow_mut().release(bytes);
    }

    /// Counts the bytes of a file, which are charged already.
    pub fn keep_file(&self, bytes: u64) {
        self.files.set(self.files.get() + bytes);
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Notes that a limit is reached; the first one counts.
    pub fn exceed(&self, limit: Exceeded) {
        if self.exceeded.get().is_none() {
            self.exceeded.set(Some(limit));
        }
    }

    /// Returns the first limit that was reached.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }
}
