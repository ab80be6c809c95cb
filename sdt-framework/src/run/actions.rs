//! The actions of a clause, which store what programs compute. Probe context.

use core::sync::atomic::Ordering;

use dtrace_abi::action::Action;
use dtrace_abi::dif::DifType;

use super::buffer::RecordBuffer;
use super::clause::{Clause, Target};
use super::context::{ClauseContext, Outcome};
use super::state::{Aggregated, Speculative, Work};
use super::store::{clear, header, memref, store, store_string};
use super::surroundings::Surroundings;
use super::words::put_number;
use crate::base::counters::bump;
use crate::base::host::Host;
use crate::kernel::Destruction;
use crate::machine::{Failure, Firing, Probe, Program, Room, Stop, Token};

/// The machine during a hit. The clauses of all enablings that need the machine use it on this CPU, one after the
/// other.
pub(crate) struct Run<'a, H> {
    firing: Firing<'a, Surroundings<'a, H>>,
    context: ClauseContext<'a, H>,
}

impl<'a, H: Host> Run<'a, H> {
    /// Starts the machine for the clauses of the first consumer. `token` is the position at which the consumer's
    /// `strtok` continues.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of `context`, and no clause runs on this CPU. The run is dropped before the CPU
    /// leaves probe context.
    #[inline(always)]
    pub(crate) unsafe fn new(
        args: &'a [u64],
        context: ClauseContext<'a, H>,
        token: Option<Token>,
    ) -> Self {
        let ClauseContext { kernel, state, here, .. } = context;
        // SAFETY: `here` belongs to this CPU, and no other clause runs on it, by the contract of this function.
        let Work { scratch, key, .. } = unsafe { &mut *here.work.get() };
        kernel.state.set(Some(state));
        let probe = Probe { id: kernel.id, names: kernel, args };
        let room = Room { scratch, key };
        let mut firing = Firing::new(kernel, &state.memory, probe, state.access, kernel.cpu, room);
        (firing.token, firing.speculations) = (token, state.speculations.len());
        Self { firing, context }
    }

    /// Continues with the clauses of the consumer of `context`; does nothing if this run already serves that consumer.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[inline]
    pub(crate) unsafe fn switch_to(&mut self, context: ClauseContext<'a, H>) {
        if core::ptr::eq(self.context.state, context.state) {
            return;
        }
        // SAFETY: the memory belongs to this CPU, by the contract of `new`; no earlier reference to it is in use,
        // because the clauses of that consumer that ran before at this hit have ended.
        let Work { scratch, key, .. } = unsafe { &mut *context.here.work.get() };
        context.kernel.state.set(Some(context.state));
        self.firing.serve(&context.state.memory, context.state.access, Room { scratch, key });
        self.firing.speculations = context.state.speculations.len();
        self.context = context;
    }

    /// Returns the state of the consumer's `strtok`, if this runs clauses of that consumer.
    pub(crate) fn token_of(&self, context: ClauseContext<'a, H>) -> Option<Option<Token>> {
        core::ptr::eq(self.context.state, context.state).then_some(self.firing.token)
    }

    /// Runs a clause. `work` is the number of available units; `time` is the time of the hit if the clock was read
    /// already. Skips the predicate if it is known to be true. If `checks`, finds a consumer that has timed out even if
    /// the predicate is false.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[inline(always)]
    pub(crate) unsafe fn clause(
        &mut self,
        epid: u32,
        clause: &Clause,
        (is_true, checks): (bool, bool),
        time: &mut Option<u64>,
        work: &mut u32,
    ) -> Outcome {
        self.firing.timestamp = *time;
        self.firing.work.set(*work);
        // SAFETY: the contract of `timed_clause` is that of this function.
        let outcome = unsafe { self.timed_clause(epid, clause, is_true, checks) };
        (*time, *work) = (self.firing.timestamp, self.firing.work.get());
        outcome
    }

    /// # Safety
    /// As [`new`](Self::new).
    #[inline(always)]
    unsafe fn timed_clause(
        &mut self,
        epid: u32,
        clause: &Clause,
        is_true: bool,
        checks: bool,
    ) -> Outcome {
        if checks && self.is_dead() {
            return Outcome::Dead;
        }
        self.firing.begin_within(epid);
        if !is_true && let Some(predicate) = &clause.predicate {
            let value = self.firing.run(predicate);
            match value {
                // The memory for a variable that the predicate assigns was full: the clause does nothing, for any value
                // of the predicate.
                _ if self.firing.dropped() => return Outcome::Dropped,
                Ok(0) => return Outcome::False,
                Ok(_) => {}
                Err(failure) => return Outcome::Failed { action: 0, failure },
            }
        }
        if clause.layout.words() != 0 && self.is_dead() {
            return Outcome::Dead;
        }
        let here = self.context.here;
        // SAFETY: the caller of `new` guarantees that this CPU is the only writer, and `act` does not call this function again.
        let outcome = unsafe {
            here.records.write(|records| {
                here.aggregated.write(|aggregated| self.act(clause, records, aggregated))
            })
        };
        match outcome {
            // As in dtrace.c, a drop precedes a fault.
            Outcome::Failed { .. } if self.firing.dropped() => Outcome::Dropped,
            outcome => outcome,
        }
    }

    fn is_dead(&mut self) -> bool {
        self.context.is_dead(self.firing.timestamp())
    }

    #[inline(never)]
    fn act(
        &mut self,
        clause: &Clause,
        records: &mut RecordBuffer,
        aggregated: &mut Aggregated,
    ) -> Outcome {
        let words = clause.layout.words();
        let Self { firing, context } = self;
        let context = *context;
        // SAFETY: the caller of `new` guarantees that no other code uses the tuple memory; the memory of `firing` is another part of it.
        let tuple = unsafe { context.tuple() };
        let mut at = 0;
        if words != 0 || records.is_full() {
            let Some(found) = context.reserve(words, records) else { return Outcome::Dropped };
            at = found;
        }
        if words != 0 {
            header(records.room(at, words), firing.epid, firing.timestamp());
        }
        let mut place = Kept::Records;
        // The value of the previous action.
        let mut value = 0;
        // The number of bytes for the next `tracemem`, if the program limits it.
        let mut wanted = None;
        // The number of significant words of the tuple; the words after them, up to the greatest length of a string,
        // count as zeroes.
        let mut keys = 0;
        for (action, act) in (1..).zip(clause.actions) {
            let failed = |failure| Outcome::Failed { action, failure };
            let outside = |Stop { fault, address }: Stop| Outcome::Failed {
                action,
                failure: Failure { fault, offset: u32::MAX, address },
            };
            let to: &mut [u64] = match &act.target {
                Target::Record => match &mut place {
                    Kept::Records => records.room(at, words),
                    Kept::Speculative(_, _, buffer) => buffer.room(at, words),
                    Kept::Nowhere => &mut [],
                },
                Target::Value(aggregation) => {
                    let computed = match act.compute(firing) {
                        Ok(computed) => computed,
                        Err(failure) => return failed(failure),
                    };
                    if firing.dropped() {
                        return Outcome::Dropped;
                    }
                    let increment = if aggregation.increments { value } else { 1 };
                    let tuple = tuple.get(..keys).unwrap_or_default();
                    // `add_padded` counts a value that does not fit as a drop.
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
                Target::Key(begins) => {
                    match (begins, &mut *tuple) {
                        (Some(id), [first, ..]) => *first = (*id).into(),
                        (None, tuple) => {
                            // Zeroes the rest of the previous string.
                            clear(tuple, keys, act.record.offset.div_ceil(8) as usize);
                        }
                        _ => {}
                    }
                    keys = (act.record.offset + act.record.size).div_ceil(8) as usize;
                    &mut *tuple
                }
            };
            if let Some(field) = act.field {
                // The action only computes a number.
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
            let is_key = matches!(act.target, Target::Key(_));
            if !is_key || !act.is_string() {
                // Zeroes the bytes that the action does not write. The previous datum has written the word in which
                // this datum begins.
                clear(to, offset.div_ceil(8), (offset + size).div_ceil(8));
            }
            match context.without_program(act, to, &firing.work) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(stop) => return outside(stop),
            }
            value = match act.compute(firing) {
                Ok(value) => value,
                Err(failure) => return failed(failure),
            };
            if firing.dropped() {
                return Outcome::Dropped;
            }
            match act.kind {
                Action::Exit => {
                    if !context.consumer.exit() {
                        return Outcome::Dropped;
                    }
                }
                // As in dtrace.c, 0 means the maximum.
                Action::TracememDynsize => wanted = Some(value).filter(|&value| value != 0),
                Action::Speculate => {
                    // SAFETY: this is the CPU of the hit, in probe context, and no earlier reference to the buffer
                    // exists, because a clause calls `speculate` at most once (`Builder::add`).
                    let Some((part, buffer)) = (unsafe { context.speculate(value) }) else {
                        return Outcome::Dropped;
                    };
                    let Some(found) = buffer.reserve(words, || false) else {
                        bump(&context.here.speculation_drops, 1);
                        return Outcome::Dropped;
                    };
                    if words != 0 {
                        // The commit stores the time.
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
                    // SAFETY: this is the CPU of the hit, in probe context, and `place` no longer refers to the
                    // speculative record.
                    if let Err(stop) = unsafe { context.commit(value, records, now, charge) } {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Discard => {
                    if matches!(place, Kept::Speculative(number, ..) if number == value) {
                        place = Kept::Nowhere;
                    }
                    let charge = |units| firing.charge(units);
                    // SAFETY: this is the CPU, in probe context, and no reference to the speculative record is used any more.
                    if let Err(stop) = unsafe { context.discard(value, charge) } {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Chill => {
                    if let Err(stop) = context.chill(value) {
                        return outside(stop);
                    }
                    // Time has passed, so the next clause reads the clock again.
                    firing.timestamp = None;
                    continue;
                }
                Action::Raise => {
                    context.destroy(Destruction::Raise(value));
                    continue;
                }
                Action::Sym | Action::Mod => {
                    if !context.state.access.kernel {
                        continue;
                    }
                }
                Action::Usym | Action::Umod | Action::Uaddr => {
                    if context.state.access.process {
                        put_number(to, offset, context.process(), 8);
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
                Action::DifExpr
                | Action::Printf
                | Action::Printa
                | Action::System
                | Action::Freopen
                | Action::LibAct
                | Action::Tracemem => {}
                // `without_program` does these.
                Action::None
                | Action::Stack
                | Action::Ustack
                | Action::Jstack
                | Action::Stop
                | Action::Breakpoint
                | Action::Panic
                | Action::Count
                | Action::Min
                | Action::Max
                | Action::Avg
                | Action::Sum
                | Action::Stddev
                | Action::Quantize
                | Action::Lquantize
                | Action::Llquantize => continue,
            }
            // The builder rejects these actions without a program.
            let Some(ty) = act.program.as_ref().map(Program::returns) else { continue };
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

/// The destination of a record.
enum Kept<'a> {
    Records,
    /// The buffer of the speculation with this number.
    Speculative(u64, &'a Speculative, &'a mut RecordBuffer),
    /// No destination: the record was discarded, or is already complete.
    Nowhere,
}

impl Kept<'_> {
    /// Completes the record at its destination.
    fn keep(&mut self, records: &mut RecordBuffer, at: usize, words: usize) {
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
