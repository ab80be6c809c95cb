//! A clause is run. Everything here is probe context.

use core::sync::atomic::Ordering;

use dtrace_abi::action::{Action, UstackArg};
use dtrace_abi::dif::DifType;
use dtrace_abi::fault::Fault;
use dtrace_abi::record::RecordHeader;

use super::clause::{Act, Aggregation, Clause, Place};
use super::speculation::Speculation;
use super::surroundings::Surroundings;
use super::tracing::{Aggregated, Cpu, Speculative, Tracing, Work};
use crate::buffer::{Activity, Traced, put_bytes, put_number};
use crate::dif::{Destruction, Failure, Firing, Kernel, Number, Probe, Rights, Room, Stop};
use crate::host::Host;
use crate::sync::{AtomicCount, AtomicU32};

/// Nanoseconds for which a consumer may say nothing (`dtrace_deadman_user`, dtrace.c).
const PATIENCE: u64 = 30_000_000_000;

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

/// Whose clauses are run.
pub(crate) struct Turn<'a, H> {
    pub(crate) kernel: &'a Surroundings<'a, H>,
    pub(crate) tracing: &'a Tracing,
    /// This CPU's part of it.
    pub(crate) here: &'a Cpu,
    /// What it may, of this probe.
    pub(crate) rights: &'a Rights,
    /// What the consumer does.
    pub(crate) activity: &'a AtomicU32,
}

impl<'a, H: Host> Run<'a, H> {
    /// Begins, with the first consumer's turn; at a time, if somebody has looked already.
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
        firing.timestamp = time;
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
        self.turn = turn;
    }

    /// Runs a clause of the consumer's whose turn it is; its predicate only if it is not known to be true.
    ///
    /// # Safety
    /// As `new`.
    #[inline(always)]
    pub(crate) unsafe fn clause(&mut self, epid: u32, clause: &Clause, is_true: bool) -> Outcome {
        self.firing.begin(epid);
        if !is_true && let Some(predicate) = &clause.predicate {
            match self.firing.run(predicate) {
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
        if self.firing.assigned()
            && let Some(cache) = self.turn.kernel.predicate_cache()
        {
            // What was false for this thread need not be any more.
            cache.store(0, Ordering::Relaxed);
        }
        outcome
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
                    Kept::Speculative(_, buffer) => buffer.room(at, words),
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
                    aggregated.buffer.add_padded(
                        tuple,
                        aggregation.keys,
                        &aggregation.function,
                        computed,
                        increment,
                    );
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
                turn.without_program(act, to);
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
                Action::TracememDynsize => wanted = Some(value),
                Action::Speculate => {
                    // SAFETY: this CPU, in probe context, and a clause speculates once.
                    let Some((part, buffer)) = (unsafe { turn.speculate(value) }) else {
                        return Outcome::Dropped;
                    };
                    let Some(found) = buffer.reserve(words, false) else {
                        count(&turn.here.speculation_drops);
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
                    if let Err(stop) = unsafe { turn.commit(value, records, firing.timestamp()) } {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Discard => {
                    if matches!(place, Kept::Speculative(..)) {
                        place = Kept::Nowhere;
                    }
                    // SAFETY: as above.
                    if let Err(stop) = unsafe { turn.discard(value) } {
                        return outside(stop);
                    }
                    continue;
                }
                Action::Chill => {
                    turn.destroy(Destruction::Chill(value));
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

impl<H> Clone for Turn<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Turn<'_, H> {}

impl<'a, H: Host> Turn<'a, H> {
    /// Where keys are put together.
    ///
    /// # Safety
    /// As [`Run::new`], and nobody else has it.
    #[inline(always)]
    unsafe fn tuple(self) -> &'a mut [u64] {
        // SAFETY: it is this CPU's, by the contract above.
        unsafe { &mut *(*self.here.work.get()).tuple }
    }

    /// The actions of a clause that stores simple numbers and aggregates them by such, at a time that is found out if it is
    /// needed.
    ///
    /// # Safety
    /// As [`Run::new`].
    #[inline(never)]
    pub(crate) unsafe fn act_plainly(
        self,
        args: &[u64],
        epid: u32,
        clause: &Clause,
        time: &mut Option<u64>,
    ) -> Outcome {
        let words = clause.layout.words();
        let mut now = 0;
        if words != 0 {
            now = *time.get_or_insert_with(|| self.kernel.timestamp());
            if self.is_dead(now) {
                return Outcome::Dead;
            }
        }
        let act = |records: &mut Traced| {
            let Some(at) = self.reserve(words, records) else { return Outcome::Dropped };
            if words != 0 {
                header(records.room(at, words), epid, now);
            }
            // SAFETY: by the contract above.
            let tuple = unsafe { self.tuple() };
            let mut value = 0;
            for (action, act) in (1..).zip(clause.acts) {
                let Some(simple) = act.simple else { continue };
                let computed = match simple.get(args, self.kernel, self.rights) {
                    Ok(computed) => computed,
                    Err(stop) => {
                        return Outcome::Failed { action, failure: stop.failure(0) };
                    }
                };
                let to = match &act.place {
                    Place::Record => records.room(at, words),
                    Place::Key(begins) => {
                        if let (Some(id), [first, ..]) = (begins, &mut *tuple) {
                            *first = (*id).into();
                        }
                        &mut *tuple
                    }
                    Place::Value(Aggregation { function, keys, increments, .. }) => {
                        let increment = if *increments { value } else { 1 };
                        let keys = tuple.get(..*keys).unwrap_or_default();
                        // SAFETY: as above. A value without room is counted there.
                        unsafe {
                            self.here.aggregated.write(|aggregated| {
                                aggregated.buffer.add(keys, function, computed, increment);
                            });
                        }
                        continue;
                    }
                };
                value = computed;
                if let Some(field) = act.field {
                    field.put(to, value);
                }
            }
            records.commit(at, words);
            Outcome::Done
        };
        // SAFETY: as above.
        unsafe { self.here.records.write(act) }
    }

    /// Whether the consumer is not there any more, as it has not been heard of for long; then it is given up
    /// (`dtrace_deadman_timeout`), unless it may destroy anyway.
    #[inline]
    fn is_dead(self, now: u64) -> bool {
        let is_late = now.saturating_sub(self.tracing.alive.get()) > PATIENCE;
        if is_late && !self.tracing.destructive {
            self.activity.store(Activity::Killed as u32, Ordering::Release);
            return true;
        }
        false
    }

    /// Finds room for a record; `None` if there is none.
    #[inline(always)]
    fn reserve(self, words: usize, records: &mut Traced) -> Option<usize> {
        let found = records.reserve(words, self.is_end());
        if found.is_none() && records.is_full() {
            self.here.filled.store(1, Ordering::Relaxed);
        }
        found
    }

    /// Whether `dtrace:::END` fires.
    fn is_end(self) -> bool {
        self.activity.load(Ordering::Relaxed) == Activity::Cooldown as u32
    }

    /// A speculation, and this CPU's part of it. 0 is none; a number that was never given is a fault.
    fn speculation(self, number: u64) -> Result<Option<(&'a Speculation, &'a Speculative)>, Stop> {
        let Some(index) = number.checked_sub(1) else { return Ok(None) };
        let found = usize::try_from(index).ok().and_then(|index| {
            Some((self.tracing.speculations.get(index)?, self.here.speculative.get(index)?))
        });
        found.ok_or(Stop { fault: Fault::IllegalOperation, address: 0 }).map(Some)
    }

    /// Where to record speculatively; `None` if that speculation is none or is over.
    ///
    /// # Safety
    /// This CPU, in probe context; what was returned before is not used any more.
    unsafe fn speculate(self, number: u64) -> Option<(&'a Speculative, &'a mut Traced)> {
        let (speculation, part) = self.speculation(number).ok()??;
        // SAFETY: the speculation is active: nobody cleans it before this CPU has left probe context.
        speculation.record(|| part.is_there()).then(|| (part, unsafe { &mut *part.buffer.get() }))
    }

    /// # Safety
    /// As `speculate`.
    unsafe fn commit(self, number: u64, records: &mut Traced, now: u64) -> Result<(), Stop> {
        let Some((speculation, part)) = self.speculation(number)? else { return Ok(()) };
        if speculation.commit(|| part.is_there()) {
            // SAFETY: it was active, and nobody cleans it before this CPU has left probe context.
            records.take_over(unsafe { &mut *part.buffer.get() }, now, self.is_end());
            part.is_there.store(0, Ordering::Relaxed);
            speculation.committed();
        }
        Ok(())
    }

    /// # Safety
    /// As `speculate`.
    unsafe fn discard(self, number: u64) -> Result<(), Stop> {
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

    /// An action that has nothing to compute.
    fn without_program(self, act: &Act, to: &mut [u64]) {
        let offset = act.record.offset as usize;
        match act.kind {
            Action::Stack if self.rights.kernel => {
                let frames = act.record.size as usize / 8;
                let own = self.kernel.origin.aframes;
                self.frames(to, offset, frames, |frames| self.kernel.stack(own, frames));
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
        self,
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

    fn process(self) -> u64 {
        self.kernel.number(Number::Pid).unwrap_or(0)
    }

    fn destroy(self, how: Destruction) {
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
    fn exit(self) -> bool {
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

/// Empties words, if there are any.
fn clear(words: &mut [u64], from: usize, to: usize) {
    if from < to
        && let Some(words) = words.get_mut(from..to)
    {
        words.fill(0);
    }
}

fn header(room: &mut [u64], epid: u32, timestamp: u64) {
    const { assert!(RecordHeader::SIZE == 12) };
    if let [first, second, ..] = room {
        *first = u64::from(epid) | timestamp >> 32 << 32;
        *second = u64::from(timestamp as u32);
    }
}

/// What `print` shows: an address and how many bytes lie there, as they stand in scratch space. `None`: there is no room
/// for so many.
fn memref<H: Host>(
    firing: &Firing<'_, Surroundings<'_, H>>,
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
fn store<H: Host>(
    firing: &Firing<'_, Surroundings<'_, H>>,
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

/// Copies a string of at most so many bytes, and zeroes to the end of the last word; returns how many it has, its zero
/// included if there is room for it.
fn store_string<H: Host>(
    firing: &mut Firing<'_, Surroundings<'_, H>>,
    to: &mut [u64],
    offset: usize,
    length: usize,
    from: u64,
    is_users: bool,
) -> Result<usize, Stop> {
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
        let end = offset + at + copied;
        if !end.is_multiple_of(8)
            && end / 8 >= (offset + at).div_ceil(8)
            && let Some(last) = to.get_mut(end / 8)
        {
            *last = 0;
        }
        put_bytes(to, offset + at, part);
        at += copied;
        if copied == 0 || part.last() == Some(&0) {
            break;
        }
    }
    Ok(at)
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
