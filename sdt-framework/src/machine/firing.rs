//! The data that the programs of a consumer share at a hit on one CPU. Probe context.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use super::memory::{Access, Memory, Probe, Room};
use super::token::Token;
use super::work::WORK;
use crate::kernel::Kernel;

/// A hit of a probe, for one consumer, on one CPU.
///
/// For each clause, call [`begin`](Self::begin), then run its predicate and the programs of its actions.
#[derive(Debug)]
pub struct Firing<'a, K> {
    pub(crate) kernel: &'a K,
    pub(crate) memory: &'a Memory<'a>,
    pub(crate) probe: Probe<'a>,
    pub(crate) access: Access,
    pub(crate) room: Room<'a>,
    pub(crate) cpu: usize,
    pub(crate) epid: u32,
    /// Bytes of scratch space that have been allocated.
    pub(crate) used: usize,
    /// The units of work that are left.
    pub(crate) work: Cell<u32>,
    /// The number of speculations, all of which `speculation()` may have to check.
    pub(crate) speculations: usize,
    /// The position at which the next `strtok(NULL, ...)` continues, if there was a `strtok` before.
    pub(crate) token: Option<Token>,
    pub(crate) timestamp: Option<u64>,
    pub(crate) walltimestamp: Option<u64>,
    dropped: bool,
}

impl<'a, K: Kernel> Firing<'a, K> {
    /// Creates a firing. The number of the CPU is below the number of CPUs of the [`Memory`], no other thread with this number is
    /// in probe context meanwhile, and `room` belongs to the CPU.
    pub fn new(
        kernel: &'a K,
        memory: &'a Memory<'a>,
        probe: Probe<'a>,
        access: Access,
        cpu: usize,
        room: Room<'a>,
    ) -> Self {
        Self {
            kernel,
            memory,
            probe,
            access,
            room,
            cpu,
            epid: 0,
            used: 0,
            work: Cell::new(WORK),
            speculations: 0,
            token: None,
            timestamp: None,
            walltimestamp: None,
            dropped: false,
        }
    }

    /// Switches to another consumer, with its memory and rights. The position of `strtok` is not passed on.
    pub(crate) fn serve(&mut self, memory: &'a Memory<'a>, access: Access, room: Room<'a>) {
        (self.memory, self.access, self.room) = (memory, access, room);
        self.token = None;
    }

    /// Begins the next clause: empties scratch space, and sets the whole budget.
    pub fn begin(&mut self, epid: u32) {
        self.work.set(WORK);
        self.begin_within(epid);
    }

    /// Begins the next clause of a hit, with the rest of the budget.
    pub(crate) fn begin_within(&mut self, epid: u32) {
        self.epid = epid;
        self.used = 0;
        self.dropped = false;
    }

    /// Notes that there was no room for a dynamic variable of this clause.
    pub(super) const fn drop_record(&mut self) {
        self.dropped = true;
    }

    /// Returns whether a dynamic variable of this clause had no room: then its record is dropped.
    pub const fn dropped(&self) -> bool {
        self.dropped
    }

    /// Clears the predicate cache of the thread, because a thread-local variable changes: a predicate that was false for this
    /// thread may be true now (`t_predcache`).
    pub(crate) fn forget_predicate(&self) {
        if let Some(cache) = self.kernel.predicate_cache() {
            cache.store(0, Ordering::Relaxed);
        }
    }
}
