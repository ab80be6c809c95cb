//! The consumer whose clauses run, and the actions that do more than store values. Probe context.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use dtrace_abi::action::{Action, UstackArg};
use dtrace_abi::fault::Fault;

use super::buffer::RecordBuffer;
use super::clause::ClauseAction;
use super::consumer::{Activity, Consumer};
use super::speculation::Speculation;
use super::state::{Cpu, RunState, Speculative};
use super::surroundings::Surroundings;
use super::words::put_number;
use crate::base::host::Host;
use crate::kernel::{Costs, Destruction, Kernel, Number};
use crate::machine::{Failure, Stop};

/// The result of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its predicate was false.
    False,
    /// Its consumer has timed out.
    Dead,
    /// All actions were run.
    Done,
    /// There was no room for its record.
    Dropped,
    /// It was stopped by a fault.
    Failed {
        /// The action, from 1; 0 is the predicate.
        action: usize,
        failure: Failure,
    },
}

/// The number of nanoseconds without a read of a buffer or the status after which a consumer times out
/// (`dtrace_deadman_user`, dtrace.c).
const PATIENCE: u64 = 30_000_000_000;

/// The consumer whose clauses run, and the CPU.
pub(crate) struct ClauseContext<'a, H> {
    pub(crate) kernel: &'a Surroundings<'a, H>,
    pub(crate) state: &'a RunState,
    /// The part of `state` that belongs to this CPU.
    pub(crate) here: &'a Cpu,
    pub(crate) consumer: &'a Consumer,
}

impl<H> Clone for ClauseContext<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for ClauseContext<'_, H> {}

impl<'a, H: Host> ClauseContext<'a, H> {
    /// Returns the buffer for keys.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of this context, and no clause that uses the tuple runs on this CPU.
    #[inline(always)]
    pub(crate) unsafe fn tuple(self) -> &'a mut [u64] {
        // SAFETY: `# Safety` requires this CPU, and that no clause uses the tuple, so this is the only reference.
        unsafe { &mut *(*self.here.work.get()).tuple }
    }

    /// Returns whether the consumer has timed out; then nothing is recorded for it any more (`dtrace_deadman_timeout`). A
    /// consumer with destructive programs does not time out.
    #[inline]
    pub(crate) fn is_dead(self, now: u64) -> bool {
        let is_late = now.saturating_sub(self.state.last_heard()) > PATIENCE;
        if is_late && !self.state.destructive {
            self.consumer.set_activity(Activity::Killed);
            return true;
        }
        false
    }

    /// Finds room for a record; `None` if there is none.
    #[inline(always)]
    pub(crate) fn reserve(self, words: usize, records: &mut RecordBuffer) -> Option<usize> {
        match records.reserve_at_once(words) {
            Some(at) => Some(at),
            None => self.reserve_elsewhere(words, records),
        }
    }

    /// Finds room for a record beyond the first half of a buffer, or in a buffer that is not switched.
    #[inline(never)]
    fn reserve_elsewhere(self, words: usize, records: &mut RecordBuffer) -> Option<usize> {
        let found = records.reserve(words, || self.is_end());
        if found.is_none() && records.is_full() {
            self.here.filled.store(1, Ordering::Relaxed);
        }
        if records.is_half_full() {
            self.here.half_filled.store(1, Ordering::Relaxed);
        }
        found
    }

    /// Returns whether `dtrace:::END` fires.
    fn is_end(self) -> bool {
        self.consumer.activity() == Activity::Cooldown
    }

    /// Returns a speculation, and this CPU's buffer for it. `None` for number 0; a number beyond the last speculation
    /// is a fault.
    fn speculation(self, number: u64) -> Result<Option<(&'a Speculation, &'a Speculative)>, Stop> {
        let Some(index) = number.checked_sub(1) else { return Ok(None) };
        let found = usize::try_from(index).ok().and_then(|index| {
            Some((self.state.speculations.get(index)?, self.here.speculative.get(index)?))
        });
        found.ok_or(Stop { fault: Fault::IllegalOperation, address: 0 }).map(Some)
    }

    /// Returns the buffer of a speculation; `None` if the speculation does not exist or has ended.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of this context, and no buffer that an earlier call returned is used any more.
    pub(crate) unsafe fn speculate(
        self,
        number: u64,
    ) -> Option<(&'a Speculative, &'a mut RecordBuffer)> {
        let (speculation, part) = self.speculation(number).ok()??;
        // SAFETY: the speculation is active, and `begin_cleaning` waits for this CPU to leave probe context before it is cleaned.
        speculation.record(|| part.is_there()).then(|| (part, unsafe { &mut *part.buffer.get() }))
    }

    /// Commits a speculation: moves this CPU's records of it to `records`, with the time `now`. Does nothing for number
    /// 0. Calls `charge` with the units of work first.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of this context, and no buffer that [`speculate`](Self::speculate) returned is
    /// in use.
    pub(crate) unsafe fn commit(
        self,
        number: u64,
        records: &mut RecordBuffer,
        now: u64,
        charge: impl FnOnce(u64) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some((speculation, part)) = self.speculation(number)? else { return Ok(()) };
        // SAFETY: the buffer belongs to this CPU, and the reader changes it only after the speculation has ended.
        charge(unsafe { &*part.buffer.get() }.work_of_taking())?;
        if speculation.commit(|| part.is_there()) {
            // SAFETY: the speculation was active, and `begin_cleaning` waits for this CPU to leave probe context.
            records.take_over(unsafe { &mut *part.buffer.get() }, now, self.is_end());
            part.is_there.store(0, Ordering::Relaxed);
            speculation.committed();
        }
        Ok(())
    }

    /// Discards a speculation, and empties this CPU's buffer of it. Does nothing for number 0. Calls `charge` with the
    /// units of work first.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of this context, and no buffer that [`speculate`](Self::speculate) returned is
    /// in use.
    pub(crate) unsafe fn discard(
        self,
        number: u64,
        charge: impl FnOnce(u64) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some((speculation, part)) = self.speculation(number)? else { return Ok(()) };
        // SAFETY: the buffer belongs to this CPU, and the reader changes it only after the speculation has ended.
        charge(unsafe { &*part.buffer.get() }.work_of_taking())?;
        speculation.discard(
            || part.is_there(),
            || {
                // SAFETY: this CPU in probe context is the only user of its buffer, by the contract of `speculate`.
                unsafe { &mut *part.buffer.get() }.empty();
                part.is_there.store(0, Ordering::Relaxed);
            },
        );
        Ok(())
    }

    /// Runs an action that has no program. Returns `false` if the action has one.
    pub(crate) fn without_program(
        self,
        act: &ClauseAction,
        to: &mut [u64],
        work: &Cell<u32>,
    ) -> Result<bool, Stop> {
        let offset = act.record.offset as usize;
        match act.kind {
            Action::Stack => {
                if self.state.access.kernel {
                    let frames = act.record.size as usize / 8;
                    let own = self.kernel.origin.aframes();
                    self.frames(to, offset, frames, work, |frames| self.kernel.stack(own, frames))?;
                }
            }
            Action::Ustack | Action::Jstack => {
                if self.state.access.process {
                    let frames = UstackArg::decode(act.record.arg).frames as usize;
                    put_number(to, offset, self.process(), 8);
                    self.frames(to, offset + 8, frames, work, |frames| self.kernel.ustack(frames))?;
                }
            }
            Action::Stop => self.destroy(Destruction::Stop),
            Action::Breakpoint => self.destroy(Destruction::Breakpoint),
            Action::Panic => self.destroy(Destruction::Panic),
            Action::DifExpr
            | Action::Exit
            | Action::Printf
            | Action::Printa
            | Action::LibAct
            | Action::Tracemem
            | Action::TracememDynsize
            | Action::Printm
            | Action::Usym
            | Action::Umod
            | Action::Uaddr
            | Action::Raise
            | Action::System
            | Action::Freopen
            | Action::Sym
            | Action::Mod
            | Action::Chill
            | Action::Speculate
            | Action::Commit
            | Action::Discard => return Ok(false),
            // The builder creates no action of kind `None`, and gives aggregating actions the target `Value`.
            Action::None
            | Action::Count
            | Action::Min
            | Action::Max
            | Action::Avg
            | Action::Sum
            | Action::Stddev
            | Action::Quantize
            | Action::Lquantize
            | Action::Llquantize => {
                return Err(Stop { fault: Fault::IllegalOperation, address: 0 });
            }
        }
        Ok(true)
    }

    /// Writes frames, with 0 for missing ones. The kernel supplies only as many frames as the budget allows; a request
    /// for more is a fault.
    fn frames(
        self,
        to: &mut [u64],
        offset: usize,
        count: usize,
        work: &Cell<u32>,
        walk: impl FnOnce(&mut [u64]) -> usize,
    ) -> Result<(), Stop> {
        const TOO_MUCH: Stop = Stop { fault: Fault::IllegalOperation, address: 0 };
        // The offset of frames in the record is a multiple of 8.
        let to = to.get_mut(offset / 8..).and_then(|to| to.get_mut(..count)).unwrap_or_default();
        let Costs { stack, frame, .. } = self.state.costs;
        let left = work.replace(0).checked_sub(stack).ok_or(TOO_MUCH)?;
        let affordable = left.checked_div(frame).map_or(usize::MAX, |frames| frames as usize);
        let wanted = to.len();
        let found = walk(to.get_mut(..wanted.min(affordable)).unwrap_or_default());
        if affordable < wanted && found >= affordable {
            return Err(TOO_MUCH);
        }
        work.set(left.saturating_sub((found as u32).saturating_mul(frame)));
        to.iter_mut().skip(found).for_each(|frame| *frame = 0);
        Ok(())
    }

    pub(crate) fn process(self) -> u64 {
        self.kernel.number(Number::Pid).unwrap_or(0)
    }

    pub(crate) fn destroy(self, how: Destruction) {
        if self.may(how) {
            self.kernel.destroy(how);
        }
    }

    fn may(self, how: Destruction) -> bool {
        let access = self.state.access;
        let permitted = match how {
            Destruction::Stop | Destruction::Raise(_) => access.control,
            Destruction::Breakpoint | Destruction::Panic | Destruction::Chill(_) => {
                access.kernel && access.control
            }
        };
        permitted && self.state.destructive
    }

    /// Holds this CPU for this number of nanoseconds; a fault if it has been held for long already
    /// (`dtrace_action_chill`, dtrace.c).
    pub(crate) fn chill(self, nanoseconds: u64) -> Result<(), Stop> {
        let how = Destruction::Chill(nanoseconds);
        if !self.may(how) {
            return Ok(());
        }
        if !self.kernel.this.may_hold(self.kernel.timestamp(), nanoseconds) {
            return Err(Stop { fault: Fault::IllegalOperation, address: 0 });
        }
        self.kernel.destroy(how);
        Ok(())
    }
}
