//! The state of a run: memory of a consumer's programs, and buffers for each CPU.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

use super::buffer::{Policy, RecordBuffer};
use super::pair::Pair;
use super::speculation::{Cleaning, Speculation};
use crate::base::sync::{AtomicCount, AtomicU32};
use crate::base::word::Word;
use crate::kernel::Costs;
use crate::machine::aggregation;
use crate::machine::{Access, Memory};

/// The state of a consumer's run. Read in probe context; never changed except for each CPU's own part.
#[derive(Debug)]
pub(crate) struct RunState {
    /// The number of the consumer, the first argument of the probes of `dtrace`.
    pub(crate) number: u32,
    pub(crate) memory: Memory<'static>,
    pub(crate) access: Access,
    pub(crate) destructive: bool,
    /// The costs of the kernel's functions.
    pub(crate) costs: Costs,
    pub(crate) policy: Policy,
    /// The traced CPUs, and the number of the first one.
    pub(super) cpus: &'static [Cpu],
    pub(super) first: usize,
    pub(crate) speculations: &'static [Speculation],
    /// The time at which the consumer last read a buffer or its status; [`NEVER`] if it does not time out.
    pub(super) heard: Word,
}

/// The part of a run that one CPU uses, on its own cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Cpu {
    pub(crate) records: Pair<RecordBuffer>,
    pub(crate) aggregated: Pair<Aggregated>,
    pub(crate) work: UnsafeCell<Work>,
    /// Its records of each speculation.
    pub(crate) speculative: &'static [Speculative],
    /// The number of records that did not fit into a speculation's buffer.
    pub(crate) speculation_drops: AtomicCount,
    /// The number of requests for which no speculation was free, because all were being cleaned, or because programs had them.
    pub(crate) lacks: [AtomicCount; 2],
    pub(crate) errors: AtomicCount,
    pub(crate) double_errors: AtomicCount,
    /// 1 if the buffer has policy `fill` and is full.
    pub(crate) filled: AtomicCount,
    /// 1 if the buffer has policy `switch` and more than half of it is used.
    pub(crate) half_filled: AtomicCount,
    /// The times at which the buffer of records and the buffer of aggregations were switched last. Only the reader uses
    /// them.
    pub(crate) switched: [Word; 2],
}

// SAFETY: only its CPU uses `work` and the speculative buffers, in probe context. The consumer's thread uses the buffers only
// after `Speculation` has taken them from the CPU and every CPU has left probe context.
unsafe impl Sync for Cpu {}

/// The memory that programs use on one CPU during a hit.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) scratch: &'static mut [u8],
    pub(crate) key: &'static mut [u64],
    pub(crate) tuple: &'static mut [u64],
}

/// The value of `heard` for a consumer that does not time out.
const NEVER: u64 = u64::MAX;

impl RunState {
    /// Returns the time at which the consumer last read a buffer or its status. Probe context.
    #[inline(always)]
    pub(crate) fn last_heard(&self) -> u64 {
        self.heard.get()
    }

    /// Restarts the timeout of the consumer at the time `now`, if it has one.
    pub(crate) fn hear(&self, now: u64) {
        if self.heard.get() != NEVER {
            self.heard.set(now);
        }
    }

    /// Disables the timeout of the consumer.
    pub(crate) fn never_time_out(&self) {
        self.heard.set(NEVER);
    }

    /// Enables the timeout of the consumer, counted from the time `now`.
    pub(crate) fn time_out_after(&self, now: u64) {
        self.heard.set(now);
    }

    /// Returns the part of a CPU; `None` if the CPU is not traced. Probe context.
    #[inline(always)]
    pub(crate) fn here(&self, cpu: usize) -> Option<&Cpu> {
        self.cpus.get(cpu.wrapping_sub(self.first))
    }

    /// Returns the parts of all traced CPUs, with the numbers of the CPUs.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, &Cpu)> {
        (self.first..).zip(self.cpus)
    }

    /// Returns whether there are speculations to clean. The one thread that cleans then waits until every CPU has been outside
    /// probe context.
    pub(crate) fn begin_cleaning(&self) -> bool {
        self.speculations.iter().fold(false, |any, of| of.begin_cleaning() | any)
    }

    /// Cleans speculations that have ended. If `records` is given, moves the records that its CPU has of committed speculations
    /// to its buffer, with this time. The records of other CPUs stay until `clean` is called with their buffers.
    ///
    /// # Safety
    /// This thread has called `begin_cleaning`, and every CPU has been outside probe context since. No other thread cleans.
    pub(crate) unsafe fn clean(&self, mut records: Option<(&Cpu, &mut RecordBuffer, u64)>) {
        for (index, speculation) in self.speculations.iter().enumerate() {
            let Some(cleaning) = speculation.cleaning() else { continue };
            let mut is_clean = true;
            for cpu in self.cpus {
                let Some(part) = cpu.speculative.get(index) else { continue };
                // SAFETY: the speculation has ended, and since `begin_cleaning` every CPU has been outside probe
                // context (`# Safety`), so no CPU uses the buffer.
                let buffer = unsafe { &mut *part.buffer.get() };
                match (&mut records, cleaning) {
                    (_, Cleaning::Discard) => buffer.empty(),
                    (Some((of, records, now)), Cleaning::Commit) if core::ptr::eq(*of, cpu) => {
                        records.take_over(buffer, *now, true);
                    }
                    _ => {}
                }
                is_clean &= buffer.is_empty();
                part.is_there.store((!buffer.is_empty()).into(), Ordering::Relaxed);
            }
            if is_clean {
                speculation.cleaned();
            }
        }
    }
}

/// The records of a CPU for a speculation.
#[derive(Debug)]
pub(crate) struct Speculative {
    /// The buffer. While the speculation is active, only its CPU uses it, in probe context. After the speculation has
    /// ended, only the consumer's thread uses it, to clean it.
    pub(crate) buffer: UnsafeCell<RecordBuffer>,
    /// 1 if the buffer contains data.
    pub(crate) is_there: AtomicU32,
}

impl Speculative {
    /// Returns whether this CPU has recorded data. Other threads write the flag only after the speculation has ended, so a CPU
    /// that has loaded its state as active with Acquire sees their store.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed) != 0
    }
}

/// The aggregations, in C's layout, for dumps ([`TuplesState`](dtrace_abi::postmortem::TuplesState)).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Aggregated {
    /// The drops of the buffer before the last [restart](Self::restart).
    pub(super) before: u64,
    pub(crate) buffer: aggregation::Buffer<'static>,
}

const _: () = assert!(core::mem::offset_of!(Aggregated, buffer) == 8);

impl Aggregated {
    /// Removes all values, and resets the number of drops to 0.
    pub(crate) fn restart(&mut self) {
        self.buffer.clear();
        self.before = self.buffer.drops();
    }

    /// Returns the number of values that did not fit since the last restart.
    pub(crate) fn drops(&self) -> u64 {
        self.buffer.drops().wrapping_sub(self.before)
    }
}
