//! Clauses that store simple numbers, and aggregate them by such: most clauses that are hit often. Their actions are decoded
//! when they are enabled, to what has to be done at a hit and nothing else, and they need no machine.

use super::clause::{Act, Clause, Field, Place};
use super::run::Outcome;
use super::store::header;
use super::turn::Turn;
use crate::aggregation::Function;
use crate::buffer::Traced;
use crate::dif::Simple;
use crate::host::Host;
use crate::kernel::Kernel;

/// What is done with a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    what: Simple,
    /// Which action it is of, from 1.
    action: u32,
    then: Then,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    /// It is stored in the record.
    Record(Field),
    /// It is a key.
    Key(Field),
    /// It is aggregated.
    Value {
        /// The first word of the tuple, and the second: the number of the aggregation, and of its variable.
        id: u32,
        variable: u64,
        /// Words of the tuple.
        keys: u32,
        function: Function,
    },
}

impl Step {
    /// What an array of them is filled with.
    pub(crate) const EMPTY: Self =
        Self { what: Simple::Constant(0), action: 0, then: Then::Record(Field::NOWHERE) };
}

/// A clause is not of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotPlain;

/// How many steps a clause with these actions has; `None` if it is not of this kind.
pub(crate) fn count(acts: &[Act]) -> Option<usize> {
    steps(acts).try_fold(0, |count, step| step.map(|_| count + 1)).ok()
}

/// Decodes the actions of a clause, each of which has its place.
pub(crate) fn steps(acts: &[Act]) -> impl Iterator<Item = Result<Step, NotPlain>> {
    // With what the tuple begins that is put together.
    let mut begins = (0, 0);
    (1..).zip(acts).filter_map(move |(action, act)| {
        let Some(what) = act.simple else { return Some(Err(NotPlain)) };
        let then = match (&act.place, act.field, what) {
            (Place::Record, Some(field), _) => Then::Record(field),
            (Place::Key(None), Some(field), _) => Then::Key(field),
            // The number of the variable is known, and a word of its own (`dtrace_aggvarid_t`).
            (Place::Key(Some(id)), Some(Field::SECOND), Simple::Constant(variable)) => {
                begins = (*id, variable);
                return None;
            }
            (Place::Value(of), ..) if !of.increments => {
                let (id, variable) = begins;
                Then::Value { id, variable, keys: of.keys as u32, function: of.function }
            }
            _ => return Some(Err(NotPlain)),
        };
        Some(Ok(Step { what, action, then }))
    })
}

impl<H: Host> Turn<'_, H> {
    /// Does all steps of a plain clause, at a time that is found out if it is needed.
    ///
    /// # Safety
    /// As [`Run::new`](super::run::Run::new).
    #[inline(always)]
    pub(crate) unsafe fn step(
        self,
        args: &[u64],
        epid: u32,
        clause: &Clause,
        time: &mut Option<u64>,
        work: &mut u32,
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
            let room = records.room(at, words);
            if words != 0 {
                header(room, epid, now);
            }
            // SAFETY: by the contract above.
            let tuple = unsafe { self.tuple() };
            for step in clause.plain.unwrap_or_default() {
                let computed = match step.what.get(args, self.kernel, self.rights) {
                    Ok(computed) => computed,
                    Err(stop) => {
                        let action = step.action as usize;
                        return Outcome::Failed { action, failure: stop.failure(0) };
                    }
                };
                match &step.then {
                    Then::Record(field) => field.put(room, computed),
                    Then::Key(field) => field.put(tuple, computed),
                    Then::Value { id, variable, keys, function } => {
                        let Some(keys) = tuple.get_mut(..*keys as usize) else { continue };
                        if let [first, second, ..] = keys {
                            (*first, *second) = ((*id).into(), *variable);
                        }
                        // SAFETY: as above. A value without room is counted there.
                        unsafe {
                            self.here.aggregated.write(|aggregated| {
                                aggregated.buffer.add_padded(
                                    keys,
                                    keys.len(),
                                    function,
                                    computed,
                                    1,
                                    work,
                                );
                            });
                        }
                    }
                }
            }
            records.commit(at, words);
            Outcome::Done
        };
        // SAFETY: as above.
        unsafe { self.here.records.write(act) }
    }
}
