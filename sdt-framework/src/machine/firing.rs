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
    /// The key of the thread in its variables, if a program has used it.
    thread: Option<u64>,
    /// The number and the chunk of the thread-local variable without keys that was used last. Only its own thread can remove it,
    /// so it stays in this chunk until this hit removes it.
    pub(super) last: Option<(u16, u32)>,
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
            thread: None,
            last: None,
            dropped: false,
        }
    }

    /// Switches to another consumer, with its memory and rights. The position of `strtok` is not passed on.
    pub(crate) fn serve(&mut self, memory: &'a Memory<'a>, access: Access, room: Room<'a>) {
        (self.memory, self.access, self.room) = (memory, access, room);
        (self.token, self.last) = (None, None);
    }

    /// Begins another hit with its first clause: empties scratch space, and sets the whole budget.
    pub fn begin(&mut self, epid: u32) {
        self.work.set(WORK);
        (self.thread, self.last) = (None, None);
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

    /// Returns the identity of the thread, with the number of nested interrupts in the upper 3 bits (`DTRACE_TLS_THRKEY`). Neither
    /// changes during a hit.
    pub(super) fn thread(&mut self) -> u64 {
        let kernel = self.kernel;
        *self.thread.get_or_insert_with(|| {
            kernel.thread() & ((1 << 61) - 1) | u64::from(kernel.interrupts() & 7) << 61
        })
    }

    /// Clears the predicate cache of the thread, because a thread-local variable changes: a predicate that was false for this
    /// thread may be true now (`t_predcache`).
    pub(crate) fn forget_predicate(&self) {
        if let Some(cache) = self.kernel.predicate_cache() {
            cache.store(0, Ordering::Relaxed);
        }
    }
}
