//! Runs clauses that need no machine: their actions are decoded to [steps](super::step::Step) when they are enabled.

use super::buffer::RecordBuffer;
use super::clause::Clause;
use super::context::{ClauseContext, Outcome};
use super::step::Then;
use super::store::header;
use crate::base::host::Host;
use crate::kernel::Kernel;

impl<H: Host> ClauseContext<'_, H> {
    /// Runs all steps of a plain clause. Reads the clock only if necessary.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of this context, and no clause runs on this CPU.
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
        let act = |records: &mut RecordBuffer| {
            let (mut at, mut room) = (0, &mut [][..]);
            if words != 0 || records.is_full() {
                let Some(found) = self.reserve(words, records) else { return Outcome::Dropped };
                (at, room) = (found, records.room(found, words));
                header(room, epid, now);
            }
            // SAFETY: this is the CPU, in probe context, and no clause uses its tuple, by the contract of this function.
            let tuple = unsafe { self.tuple() };
            for step in clause.plain.unwrap_or_default() {
                let computed = match step.what.get(args, self.kernel, &self.state.access) {
                    Ok(computed) => computed,
                    Err(stop) => {
                        let action = step.action as usize;
                        return Outcome::Failed { action, failure: stop.failure(0) };
                    }
                };
                let (to, field) = match &step.then {
                    Then::Record(field) => (&mut *room, field),
                    Then::Key(field) => (&mut *tuple, field),
                    Then::Exit(field) => {
                        if !self.consumer.exit() {
                            return Outcome::Dropped;
                        }
                        (&mut *room, field)
                    }
                    Then::Value { id, variable, keys, function } => {
                        let Some(keys) = tuple.get_mut(..*keys as usize) else { continue };
                        if let [first, second, ..] = keys {
                            (*first, *second) = ((*id).into(), *variable);
                        }
                        // SAFETY: this is the CPU, in probe context, by the contract of this function. `add_padded`
                        // counts a value without room.
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
                        continue;
                    }
                };
                field.put(to, computed);
            }
            records.commit(at, words);
            Outcome::Done
        };
        // SAFETY: this is the CPU, in probe context, and no other clause runs on it, by the contract of this function.
        unsafe { self.here.records.write(act) }
    }
}
