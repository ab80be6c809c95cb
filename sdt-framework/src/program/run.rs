//! A clause is run. Everything here is probe context.

use core::sync::atomic::Ordering;

use dtrace_abi::action::{Action, UstackArg};
use dtrace_abi::dif::DifType;
use dtrace_abi::fault::Fault;
use dtrace_abi::record::RecordHeader;

use super::clause::{Act, Clause, Place};
use super::speculation::Speculation;
use super::surroundings::Surroundings;
use super::tracing::{Aggregated, Speculative, Tracing, Work};
use crate::buffer::{Activity, Traced, put_bytes, put_number};
use crate::dif::{Destruction, Failure, Firing, Kernel, Number, Probe, Rights, Room, Stop};
use crate::sync::{AtomicCount, AtomicU32};

/// What became of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was not run, as its predicate was false.
    False,
    /// All of it was done.
    Done,
    /// There was no room for what it records.
    Dropped,
    /// It was given up.
    Failed {
        /// Which action, from 1; 0 is the predicate.
        action: usize,
        failure: Failure,
    },
}

/// A hit, for a consumer, on a CPU.
pub(crate) struct Hit<'a> {
    pub(crate) kernel: &'a Surroundings<'a>,
    pub(crate) probe: Probe<'a>,
    pub(crate) tracing: &'a Tracing,
    /// What it may, of this probe.
    pub(crate) rights: Rights,
    /// What the consumer does.
    pub(crate) activity: &'a AtomicU32,
    pub(crate) cpu: usize,
    pub(crate) timestamp: u64,
    /// Frames that the provider has on the stack.
    pub(crate) aframes: u32,
}

impl Hit<'_> {
    /// Runs a clause.
    ///
    /// # Safety
    /// This is the CPU, in probe context, and no clause of this consumer is being run on it.
    pub(crate) unsafe fn run(&self, epid: u32, clause: &Clause) -> Outcome {
        let Some(here) = self.tracing.cpus.get(self.cpu) else { return Outcome::Dropped };
        // SAFETY: it is this CPU's, by the contract above.
        let Work { scratch, key, tuple } = unsafe { &mut *here.work.get() };
        let room = Room { scratch, key };
        let memory = &self.tracing.memory;
        let mut firing = Firing::new(self.kernel, memory, self.probe, self.rights, self.cpu, room);
        firing.timestamp = Some(self.timestamp);
        firing.begin(epid);
        if let Some(predicate) = &clause.predicate {
            match firing.run(predicate) {
                Ok(0) => return Outcome::False,
                Ok(_) => {}
                Err(failure) => return Outcome::Failed { action: 0, failure },
            }
        }
        // SAFETY: as above, and nothing that is called here comes back.
        let outcome = unsafe {
            here.records.write(|records| {
                here.aggregated
                    .write(|aggregated| self.act(clause, &mut firing, records, aggregated, tuple))
            })
        };
        if firing.assigned()
            && let Some(cache) = self.kernel.predicate_cache()
        {
            // What was false for this thread need not be any more.
            cache.store(0, Ordering::Relaxed);
        }
        outcome
    }

    fn act(
        &self,
        clause: &Clause,
        firing: &mut Firing<'_, Surroundings<'_>>,
        records: &mut Traced,
        aggregated: &mut Aggregated,
        tuple: &mut [u64],
    ) -> Outcome {
        let words = clause.layout.words();
        let is_end = self.activity.load(Ordering::Relaxed) == Activity::Cooldown as u32;
        let Some(at) = records.reserve(words, is_end) else {
            if records.is_full()
                && let Some(here) = self.tracing.cpus.get(self.cpu)
            {
                here.filled.store(1, Ordering::Relaxed);
            }
            return Outcome::Dropped;
        };
        if words != 0 {
            header(records.room(at, words), firing.epid, self.timestamp);
        }
        let mut place = Kept::Records;
        let mut at = at;
        // What the action before has computed.
        let mut value = 0;
        // Bytes that the next `tracemem` is to have.
        let mut wanted = None;
        for (action, act) in (1..).zip(clause.acts) {
            let failed = |failure| Outcome::Failed { action, failure };
            let outside = |Stop { fault, address }: Stop| Outcome::Failed {
                action,
                failure: Failure { fault, offset: u32::MAX, address },
            };
            let to: &mut [u64] = match &act.place {
                Place::Record => match &mut place {
                    Kept::Records => records.room(at, words),
                    Kept::Speculative(_, buffer) => buffer.room(at, words),
                    Kept::Nowhere => &mut [],
                },
                Place::Value(aggregation) => {
                    let computed = match (act.constant, &act.program) {
                        (Some(constant), _) => Ok(constant),
                        (None, Some(program)) => firing.run(program),
                        (None, None) => Ok(0),
                    };
                    let computed = match computed {
                        Ok(computed) => computed,
                        Err(failure) => return failed(failure),
                    };
                    if firing.dropped() {
                        return Outcome::Dropped;
                    }
                    let increment = if aggregation.increments { value } else { 1 };
                    let keys = tuple.get(..aggregation.keys).unwrap_or_default();
                    // A value without room is counted there.
                    aggregated.buffer.add(keys, &aggregation.function, computed, increment);
                    continue;
                }
                Place::Key(begins) => {
                    if let Some(id) = begins {
                        tuple.fill(0);
                        put_number(tuple, 0, (*id).into(), 4);
                    }
                    &mut *tuple
                }
            };
            let Some(program) = &act.program else {
                self.without_program(act, to);
                continue;
            };
            value = match act.constant.map_or_else(|| firing.run(program), Ok) {
                Ok(value) => value,
                Err(failure) => return failed(failure),
            };
            if firing.dropped() {
                return Outcome::Dropped;
            }
            let offset = act.record.offset as usize;
            let size = act.record.size as usize;
            match act.kind {
                Action::Exit if !self.exit() => return Outcome::Dropped,
                Action::TracememDynsize => wanted = Some(value),
                Action::Speculate => {
                    // SAFETY: this CPU, in probe context, and a clause speculates once.
                    let Some((part, buffer)) = (unsafe { self.speculate(value) }) else {
                        return Outcome::Dropped;
                    };
                    let Some(found) = buffer.reserve(words, false) else {
                        self.count_speculation_drop();
                        return Outcome::Dropped;
                    };
                    if words != 0 {
                        // The time is that at which it is committed.
                        header(buffer.room(found, words), firing.epid, u64::MAX);
                    }
                    (place, at) = (Kept::Speculative(part, buffer), found);
                    continue;
                }
                Action::Commit => {
                    place.keep(records, at, words);
                    place = Kept::Nowhere;
                    // SAFETY: this CPU, in probe context, and what was recorded speculatively is done with.
                    if let Err(stop) = unsafe { self.commit(value, records, is_end) } {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Discard => {
                    if matches!(place, Kept::Speculative(..)) {
                        place = Kept::Nowhere;
                    }
                    // SAFETY: as above.
                    if let Err(stop) = unsafe { self.discard(value) } {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Chill => {
                    self.destroy(Destruction::Chill(value));
                    continue;
                }
                Action::Raise => {
                    self.destroy(Destruction::Raise(value));
                    continue;
                }
                Action::Sym | Action::Mod if !self.rights.kernel => continue,
                Action::Usym | Action::Umod | Action::Uaddr => {
                    if self.rights.process {
                        put_number(to, offset, self.process(), 8);
                        put_number(to, offset + 8, value, 8);
                    }
                    continue;
                }
                Action::Printm => {
                    match memref(firing, value, size) {
                        Ok(Some((address, length))) => {
                            put_number(to, offset, length, 8);
                            let stored =
                                store(firing, to, offset + 8, length as usize, address, false);
                            if let Err(stop) = stored {
                                return outside(stop);
                            }
                        }
                        Ok(None) => return Outcome::Dropped,
                        Err(stop) => return outside(stop),
                    }
                    continue;
                }
                _ => {}
            }
            let ty = program.returns();
            let stored = if !ty.is_by_ref() {
                if matches!(size, 1 | 2 | 4 | 8) {
                    put_number(to, offset, value, size);
                }
                Ok(())
            } else {
                let length = match wanted.take() {
                    Some(wanted) if act.kind == Action::Tracemem => {
                        usize::try_from(wanted).map_or(size, |wanted| wanted.min(size))
                    }
                    other => {
                        wanted = other;
                        size
                    }
                };
                let is_users = ty.flags & DifType::BYUREF != 0;
                match ty.is_string() {
                    true => store_string(firing, to, offset, length, value, is_users),
                    false => store(firing, to, offset, length, value, is_users),
                }
            };
            if let Err(stop) = stored {
                return outside(stop);
            }
        }
        place.keep(records, at, words);
        Outcome::Done
    }

    /// A speculation, and this CPU's part of it. 0 is none; a number that was never given is a fault.
    fn speculation(&self, number: u64) -> Result<Option<(&Speculation, &Speculative)>, Stop> {
        let Some(index) = number.checked_sub(1) else { return Ok(None) };
        let found = usize::try_from(index).ok().and_then(|index| {
            let here = self.tracing.cpus.get(self.cpu)?;
            Some((self.tracing.speculations.get(index)?, here.speculative.get(index)?))
        });
        found.ok_or(Stop { fault: Fault::IllegalOperation, address: 0 }).map(Some)
    }

    /// Where to record speculatively; `None` if that speculation is none or is over.
    ///
    /// # Safety
    /// This CPU, in probe context; what was returned before is not used any more.
    #[allow(clippy::mut_from_ref, reason = "the buffer is this CPU's, by the contract above")]
    unsafe fn speculate(&self, number: u64) -> Option<(&Speculative, &mut Traced)> {
        let (speculation, part) = self.speculation(number).ok()??;
        // SAFETY: the speculation is active: nobody cleans it before this CPU has left probe context.
        speculation.record(|| part.is_there()).then(|| (part, unsafe { &mut *part.buffer.get() }))
    }

    /// # Safety
    /// As `speculate`.
    unsafe fn commit(&self, number: u64, records: &mut Traced, is_end: bool) -> Result<(), Stop> {
        let Some((speculation, part)) = self.speculation(number)? else { return Ok(()) };
        if speculation.commit(|| part.is_there()) {
            // SAFETY: it was active, and nobody cleans it before this CPU has left probe context.
            records.take_over(unsafe { &mut *part.buffer.get() }, self.timestamp, is_end);
            part.is_there.store(0, Ordering::Relaxed);
            speculation.committed();
        }
        Ok(())
    }

    /// # Safety
    /// As `speculate`.
    unsafe fn discard(&self, number: u64) -> Result<(), Stop> {
        let Some((speculation, part)) = self.speculation(number)? else { return Ok(()) };
        speculation.discard(
            || part.is_there(),
            || {
                // SAFETY: as above.
                unsafe { &mut *part.buffer.get() }.empty();
                part.is_there.store(0, Ordering::Relaxed);
            },
        );
        Ok(())
    }

    fn count_speculation_drop(&self) {
        if let Some(here) = self.tracing.cpus.get(self.cpu) {
            count(&here.speculation_drops);
        }
    }

    /// An action that has nothing to compute.
    fn without_program(&self, act: &Act, to: &mut [u64]) {
        let offset = act.record.offset as usize;
        match act.kind {
            Action::Stack if self.rights.kernel => {
                let frames = act.record.size as usize / 8;
                self.frames(to, offset, frames, |frames| self.kernel.stack(self.aframes, frames));
            }
            Action::Ustack | Action::Jstack if self.rights.process => {
                let frames = UstackArg::decode(act.record.arg).frames as usize;
                put_number(to, offset, self.process(), 8);
                self.frames(to, offset + 8, frames, |frames| self.kernel.ustack(frames));
            }
            Action::Stop => self.destroy(Destruction::Stop),
            Action::Breakpoint => self.destroy(Destruction::Breakpoint),
            Action::Panic => self.destroy(Destruction::Panic),
            _ => {}
        }
    }

    /// Writes frames; those that there are not are 0.
    fn frames(
        &self,
        to: &mut [u64],
        offset: usize,
        count: usize,
        walk: impl FnOnce(&mut [u64]) -> usize,
    ) {
        // Their place is a multiple of 8.
        let to = to.get_mut(offset / 8..).and_then(|to| to.get_mut(..count)).unwrap_or_default();
        let found = walk(to);
        to.iter_mut().skip(found).for_each(|frame| *frame = 0);
    }

    fn process(&self) -> u64 {
        self.kernel.number(Number::Pid).unwrap_or(0)
    }

    fn destroy(&self, how: Destruction) {
        let rights = self.rights;
        let permitted = match how {
            Destruction::Stop | Destruction::Raise(_) => rights.control,
            Destruction::Breakpoint | Destruction::Panic | Destruction::Chill(_) => {
                rights.kernel && rights.control
            }
        };
        if permitted && self.tracing.destructive {
            self.kernel.destroy(how);
        }
    }

    /// Ends the run, unless it has been ended; says whether this is the end that counts.
    fn exit(&self) -> bool {
        let next = |now| match Activity::from_number(now) {
            Activity::Warmup | Activity::Active => Some(Activity::Draining as u32),
            Activity::Cooldown => Some(now),
            _ => None,
        };
        self.activity.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }
}

/// Where a record is kept.
enum Kept<'a> {
    Records,
    /// In a speculation's buffer.
    Speculative(&'a Speculative, &'a mut Traced),
    /// Nowhere, or it has been already.
    Nowhere,
}

impl Kept<'_> {
    /// The record has been written.
    fn keep(&mut self, records: &mut Traced, at: usize, words: usize) {
        match self {
            Self::Records => records.commit(at, words),
            Self::Speculative(part, buffer) => {
                buffer.commit(at, words);
                part.is_there.store((!buffer.is_empty()).into(), Ordering::Relaxed);
            }
            Self::Nowhere => {}
        }
    }
}

fn header(room: &mut [u64], epid: u32, timestamp: u64) {
    const { assert!(RecordHeader::SIZE == 12) };
    put_number(room, 0, epid.into(), 4);
    put_number(room, 4, timestamp >> 32, 4);
    put_number(room, 8, timestamp, 4);
}

/// What `print` shows: an address and how many bytes lie there, as they stand in scratch space. `None`: there is no room
/// for so many.
fn memref(
    firing: &Firing<'_, Surroundings<'_>>,
    at: u64,
    size: usize,
) -> Result<Option<(u64, u64)>, Stop> {
    let mut words = [[0; 8]; 2];
    firing.fetch(at, words.as_flattened_mut())?;
    let [address, length] = words.map(u64::from_le_bytes);
    Ok((length.saturating_add(8) <= size as u64).then_some((address, length)))
}

/// How many bytes are copied at once.
const PART: usize = 64;

/// Copies so many bytes.
fn store(
    firing: &Firing<'_, Surroundings<'_>>,
    to: &mut [u64],
    offset: usize,
    length: usize,
    from: u64,
    is_users: bool,
) -> Result<(), Stop> {
    let mut part = [0; PART];
    for at in (0..length).step_by(PART) {
        let Some(part) = part.get_mut(..(length - at).min(PART)) else { break };
        let address = from.wrapping_add(at as u64);
        match is_users {
            true => firing.fetch_user(address, part)?,
            false => firing.fetch(address, part)?,
        }
        put_bytes(to, offset + at, part);
    }
    Ok(())
}

/// Copies a string of at most so many bytes; what is behind its end is zero.
fn store_string(
    firing: &mut Firing<'_, Surroundings<'_>>,
    to: &mut [u64],
    offset: usize,
    length: usize,
    from: u64,
    is_users: bool,
) -> Result<(), Stop> {
    let mut part = [0; PART];
    let mut at = 0;
    while at < length {
        let address = from.wrapping_add(at as u64);
        let copied = if is_users {
            // Byte by byte: the next one may be on a page that is not there.
            let [first, ..] = &mut part;
            firing.fetch_user(address, core::slice::from_mut(first))?;
            1
        } else {
            let Some(part) = part.get_mut(..(length - at).min(PART)) else { break };
            firing.fetch_string(address, part)?
        };
        let Some(part) = part.get(..copied) else { break };
        put_bytes(to, offset + at, part);
        at += copied;
        if copied == 0 || part.last() == Some(&0) {
            break;
        }
    }
    Ok(())
}

/// What `dtrace:::ERROR` is told besides whose error it is.
pub(crate) fn error_arguments(epid: u32, action: usize, failure: &Failure) -> [u64; 5] {
    let Failure { fault, offset, address } = failure;
    [epid.into(), action as u64, (*offset).into(), Fault::number(*fault).into(), *address]
}

/// Counts one more: each count has one writer, its CPU.
pub(crate) fn count(count: &AtomicCount) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
