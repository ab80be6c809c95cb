//! A clause is run. Everything here is probe context.

use core::sync::atomic::Ordering;

use dtrace_abi::action::Action;
use dtrace_abi::dif::DifType;
use dtrace_abi::fault::Fault;

use super::clause::{Clause, Place};
use super::store::{clear, header, memref, store, store_string};
use super::surroundings::Surroundings;
use super::tracing::{Aggregated, Speculative, Tracing, Work};
use super::turn::Turn;
use crate::buffer::{Traced, put_number};
use crate::dif::{Failure, Firing, Probe, Room, Stop};
use crate::host::Host;
use crate::kernel::Destruction;
use crate::sync::AtomicCount;

/// What became of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was not run, as its predicate was false.
    False,
    /// It was not run, as its consumer is not there any more.
    Dead,
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

/// A probe fires: what the clauses of all its enablings share on this CPU, one after the other.
pub(crate) struct Run<'a, H> {
    pub(crate) firing: Firing<'a, Surroundings<'a, H>>,
    turn: Turn<'a, H>,
}

impl<'a, H: Host> Run<'a, H> {
    /// Starts running the clauses of the first consumer. `time` is the timestamp, if the clock was read already.
    ///
    /// # Safety
    /// This is the CPU, in probe context, and no clause is being run on it. It is over before the CPU leaves that.
    #[inline(always)]
    pub(crate) unsafe fn new(
        probe: Probe<'a>,
        cpu: usize,
        turn: Turn<'a, H>,
        time: Option<u64>,
    ) -> Self {
        let Turn { kernel, tracing, rights, .. } = turn;
        // SAFETY: it is this CPU's, by the contract above.
        let Work { scratch, key, .. } = unsafe { &mut *turn.here.work.get() };
        let room = Room { scratch, key };
        kernel.tracing.set(Some(tracing));
        let mut firing = Firing::new(kernel, &tracing.memory, probe, *rights, cpu, room);
        (firing.timestamp, firing.speculations) = (time, tracing.speculations.len());
        Self { firing, turn }
    }

    /// It is another consumer's turn, if it is.
    ///
    /// # Safety
    /// As `new`.
    #[inline]
    pub(crate) unsafe fn turn_to(&mut self, turn: Turn<'a, H>) {
        if core::ptr::eq(self.turn.tracing, turn.tracing) {
            return;
        }
        // SAFETY: it is this CPU's, and nobody has had it yet: a consumer whose turn is over and comes again finds
        // that what it had is not used any more.
        let Work { scratch, key, .. } = unsafe { &mut *turn.here.work.get() };
        turn.kernel.tracing.set(Some(turn.tracing));
        self.firing.serve(&turn.tracing.memory, *turn.rights, Room { scratch, key });
        self.firing.speculations = turn.tracing.speculations.len();
        self.turn = turn;
    }

    /// Runs a clause of the consumer's whose turn it is; its predicate only if it is not known to be true.
    ///
    /// # Safety
    /// As `new`.
    #[inline(always)]
    pub(crate) unsafe fn clause(&mut self, epid: u32, clause: &Clause, is_true: bool) -> Outcome {
        self.firing.begin_within(epid);
        if !is_true && let Some(predicate) = &clause.predicate {
            let said = self.firing.run(predicate);
            match said {
                // What it was to assign had no room: nothing is done, whatever it says.
                _ if self.firing.dropped() => return Outcome::Dropped,
                Ok(0) => return Outcome::False,
                Ok(_) => {}
                Err(failure) => return Outcome::Failed { action: 0, failure },
            }
        }
        if clause.layout.size != 0 && self.is_dead() {
            return Outcome::Dead;
        }
        let here = self.turn.here;
        // SAFETY: as above, and nothing that is called here comes back.
        let outcome = unsafe {
            here.records.write(|records| {
                here.aggregated.write(|aggregated| self.act(clause, records, aggregated))
            })
        };
        match outcome {
            // As there: a drop comes before a fault.
            Outcome::Failed { .. } if self.firing.dropped() => Outcome::Dropped,
            outcome => outcome,
        }
    }

    /// Whose clauses are run.
    pub(crate) const fn tracing(&self) -> &'a Tracing {
        self.turn.tracing
    }

    /// As that of its turn, now.
    pub(crate) fn is_dead(&mut self) -> bool {
        self.turn.is_dead(self.firing.timestamp())
    }

    #[inline(never)]
    fn act(
        &mut self,
        clause: &Clause,
        records: &mut Traced,
        aggregated: &mut Aggregated,
    ) -> Outcome {
        let words = clause.layout.words();
        let Self { firing, turn } = self;
        let turn = *turn;
        // SAFETY: as `new`; the room that the firing has is another part of it.
        let tuple = unsafe { turn.tuple() };
        let Some(at) = turn.reserve(words, records) else { return Outcome::Dropped };
        if words != 0 {
            header(records.room(at, words), firing.epid, firing.timestamp());
        }
        let mut place = Kept::Records;
        let mut at = at;
        // What the action before has computed.
        let mut value = 0;
        // Bytes that the next `tracemem` is to have.
        let mut wanted = None;
        // Words of the tuple that tell it from others: behind them, up to where a string could end, are zeroes, if
        // anybody asks.
        let mut keys = 0;
        for (action, act) in (1..).zip(clause.acts) {
            let failed = |failure| Outcome::Failed { action, failure };
            let outside = |Stop { fault, address }: Stop| Outcome::Failed {
                action,
                failure: Failure { fault, offset: u32::MAX, address },
            };
            let to: &mut [u64] = match &act.place {
                Place::Record => match &mut place {
                    Kept::Records => records.room(at, words),
                    Kept::Speculative(_, _, buffer) => buffer.room(at, words),
                    Kept::Nowhere => &mut [],
                },
                Place::Value(aggregation) => {
                    let computed = match act.compute(firing) {
                        Ok(computed) => computed,
                        Err(failure) => return failed(failure),
                    };
                    if firing.dropped() {
                        return Outcome::Dropped;
                    }
                    let increment = if aggregation.increments { value } else { 1 };
                    let tuple = tuple.get(..keys).unwrap_or_default();
                    // A value without room is counted there.
                    let mut work = firing.work.get();
                    aggregated.buffer.add_padded(
                        tuple,
                        aggregation.keys,
                        &aggregation.function,
                        computed,
                        increment,
                        &mut work,
                    );
                    firing.work.set(work);
                    continue;
                }
                Place::Key(begins) => {
                    match (begins, &mut *tuple) {
                        (Some(id), [first, ..]) => *first = (*id).into(),
                        (None, tuple) => {
                            // Of the string before it nothing else is left.
                            clear(tuple, keys, act.record.offset.div_ceil(8) as usize);
                        }
                        _ => {}
                    }
                    keys = (act.record.offset + act.record.size).div_ceil(8) as usize;
                    &mut *tuple
                }
            };
            if let Some(field) = act.field {
                // It computes a number, and that is all.
                value = match act.compute(firing) {
                    Ok(value) => value,
                    Err(failure) => return failed(failure),
                };
                if firing.dropped() {
                    return Outcome::Dropped;
                }
                field.put(to, value);
                continue;
            }
            let offset = act.record.offset as usize;
            let size = act.record.size as usize;
            let is_key = matches!(act.place, Place::Key(_));
            if !is_key || !act.is_string() {
                // Whatever it leaves out is zero. Before its first whole word somebody else has written.
                clear(to, offset.div_ceil(8), (offset + size).div_ceil(8));
            }
            let Some(program) = &act.program else {
                if let Err(stop) = turn.without_program(act, to, &firing.work) {
                    return outside(stop);
                }
                continue;
            };
            value = match act.compute(firing) {
                Ok(value) => value,
                Err(failure) => return failed(failure),
            };
            if firing.dropped() {
                return Outcome::Dropped;
            }
            match act.kind {
                Action::Exit if !turn.exit() => return Outcome::Dropped,
                // As in dtrace.c, 0 stands for the maximum.
                Action::TracememDynsize => wanted = Some(value).filter(|&value| value != 0),
                Action::Speculate => {
                    // SAFETY: this CPU, in probe context, and a clause speculates once.
                    let Some((part, buffer)) = (unsafe { turn.speculate(value) }) else {
                        return Outcome::Dropped;
                    };
                    let Some(found) = buffer.reserve(words, || false) else {
                        count(&turn.here.speculation_drops);
                        return Outcome::Dropped;
                    };
                    if words != 0 {
                        // The time is that at which it is committed.
                        header(buffer.room(found, words), firing.epid, u64::MAX);
                    }
                    (place, at) = (Kept::Speculative(value, part, buffer), found);
                    continue;
                }
                Action::Commit => {
                    place.keep(records, at, words);
                    place = Kept::Nowhere;
                    let now = firing.timestamp();
                    let charge = |units| firing.charge(units);
                    // SAFETY: this CPU, in probe context, and what was recorded speculatively is done with.
                    if let Err(stop) = unsafe { turn.commit(value, records, now, charge) } {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Discard => {
                    if matches!(place, Kept::Speculative(number, ..) if number == value) {
                        place = Kept::Nowhere;
                    }
                    // SAFETY: as above.
                    if let Err(stop) = unsafe { turn.discard(value, |units| firing.charge(units)) }
                    {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Chill => {
                    if let Err(stop) = turn.chill(value) {
                        return outside(stop);
                    }
                    // It has passed.
                    firing.timestamp = None;
                    continue;
                }
                Action::Raise => {
                    turn.destroy(Destruction::Raise(value));
                    continue;
                }
                Action::Sym | Action::Mod if !turn.rights.kernel => continue,
                Action::Usym | Action::Umod | Action::Uaddr => {
                    if turn.rights.process {
                        put_number(to, offset, turn.process(), 8);
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
                Ok(size)
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
                    false => store(firing, to, offset, length, value, is_users).map(|()| size),
                }
            };
            match stored {
                Ok(stored) if is_key => keys = (offset + stored).div_ceil(8),
                Ok(_) => {}
                Err(stop) => return outside(stop),
            }
        }
        place.keep(records, at, words);
        Outcome::Done
    }
}

/// Where a record is kept.
enum Kept<'a> {
    Records,
    /// In the buffer of the speculation with this number.
    Speculative(u64, &'a Speculative, &'a mut Traced),
    /// Nowhere, or it has been already.
    Nowhere,
}

impl Kept<'_> {
    /// The record has been written.
    fn keep(&mut self, records: &mut Traced, at: usize, words: usize) {
        match self {
            Self::Records => records.commit(at, words),
            Self::Speculative(_, part, buffer) => {
                buffer.commit(at, words);
                part.is_there.store((!buffer.is_empty()).into(), Ordering::Relaxed);
            }
            Self::Nowhere => {}
        }
    }
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
