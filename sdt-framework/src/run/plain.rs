//! Runs clauses that need no machine: their actions are decoded to [steps](super::step::Step) when they are enabled.
//!
//! A step copies a string from the kernel's memory to the record or tuple at once, without scratch space. If it cannot read the
//! memory, the machine runs the program of this action instead. So a string that cannot be read has the same fault, at the same
//! instruction, as in a clause that is not plain.

use super::buffer::RecordBuffer;
use super::clause::Clause;
use super::context::{ClauseContext, Outcome};
use super::fire::HAS_INTERPRETER;
use super::step::{Step, TextPlace, TextStep, Then};
use super::store::{PIECE, clear, header, put_piece, store_string};
use crate::base::host::Host;
use crate::kernel::Kernel;
use crate::machine::{Failure, Firing, Probe, Room, Stop, load_kernel};

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
            // The significant words of a tuple whose last key is a string.
            let mut significant = None;
            let hit = (args, epid, clause);
            for step in clause.plain.unwrap_or_default() {
                let (action, what, then) = match step {
                    Step::Number { action, what, then } => (*action as usize, what, then),
                    Step::Text(_) if !HAS_INTERPRETER => continue,
                    Step::Text(step) => {
                        let is_record = step.place == TextPlace::Record;
                        let to = if is_record { &mut *room } else { &mut *tuple };
                        // SAFETY: this is the CPU, in probe context, by the contract of this function, and `to` is in the record or in
                        // the tuple.
                        let end = unsafe { self.store_text(step, to, hit, work) };
                        match end {
                            Ok(end) => {
                                significant = (step.place == TextPlace::LastKey).then_some(end);
                            }
                            Err(failure) => {
                                return Outcome::Failed { action: step.action as usize, failure };
                            }
                        }
                        continue;
                    }
                };
                let computed = match what.get(args, self.kernel, &self.state.access) {
                    Ok(computed) => computed,
                    Err(stop) => return Outcome::Failed { action, failure: stop.failure(0) },
                };
                let (to, field) = match then {
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
                        let length = keys.len();
                        let keys = keys.get(..significant.take().unwrap_or(length)).unwrap_or(keys);
                        // SAFETY: this is the CPU, in probe context, by the contract of this function. `add_padded`
                        // counts a value without room.
                        unsafe {
                            self.here.aggregated.write(|aggregated| {
                                aggregated
                                    .buffer
                                    .add_padded(keys, length, function, computed, 1, work);
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

    /// Stores the string of a step in `to`, and zeroes the words after it, except those that count as zeroes. Returns the position of
    /// the first word after the string with its NUL.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of this context, and no other code uses the scratch space and the key of its
    /// [`Work`](super::state::Work).
    #[inline(never)]
    unsafe fn store_text(
        self,
        step: &TextStep,
        to: &mut [u64],
        hit: (&[u64], u32, &Clause),
        work: &mut u32,
    ) -> Result<usize, Failure> {
        let (offset, size) = (step.offset as usize, step.size as usize);
        let (kernel, access, costs) = (self.kernel, &self.state.access, &self.state.costs);
        let load = |address: u64, into: &mut [u8]| {
            let units = costs.load.checked_add(PIECE as u32 + into.len() as u32)?;
            *work = work.checked_sub(units)?;
            load_kernel(kernel, address, into).then_some(())
        };
        let put = |at: usize, piece: &[u8]| put_piece(to, offset + at, piece);
        let is_permitted = access.args && access.kernel;
        let length = if is_permitted { step.text.read(hit.0, size, load, put) } else { None };
        let (written, stored) = match length {
            Some(length) => (length, (length + 1).min(size)),
            None => {
                // SAFETY: the contract is that of this function.
                let stored = unsafe { self.store_by_machine(step, to, hit, work) }?;
                (stored, stored)
            }
        };
        let end = (offset + stored).div_ceil(8);
        let cleared = match step.place {
            TextPlace::LastKey => end,
            TextPlace::Record | TextPlace::Key => (offset + size).div_ceil(8),
        };
        clear(to, (offset + written).div_ceil(8), cleared);
        Ok(end)
    }

    /// Stores the string of a step with the machine. Returns its length, which includes the NUL if the NUL fits.
    ///
    /// # Safety
    /// As [`store_text`](Self::store_text).
    #[cold]
    unsafe fn store_by_machine(
        self,
        step: &TextStep,
        to: &mut [u64],
        hit: (&[u64], u32, &Clause),
        work: &mut u32,
    ) -> Result<usize, Failure> {
        let Self { kernel, state, here, .. } = self;
        let (args, epid, clause) = hit;
        // SAFETY: `# Safety` requires this CPU, and that no other code uses these two parts.
        let (scratch, key) = unsafe {
            let work = here.work.get();
            (&mut *(*work).scratch, &mut *(*work).key)
        };
        kernel.state.set(Some(state));
        let probe = Probe { id: kernel.id, names: kernel, args };
        let room = Room { scratch, key };
        let mut firing = Firing::new(kernel, &state.memory, probe, state.access, kernel.cpu, room);
        firing.work.set(*work);
        firing.begin_within(epid);
        let act = clause.actions.get((step.action as usize).wrapping_sub(1));
        let computed = act.map_or(Ok(0), |act| act.compute(&mut firing));
        let stored = computed.and_then(|address| {
            let (offset, size) = (step.offset as usize, step.size as usize);
            let stored = store_string(&mut firing, to, offset, size, address, false);
            stored.map_err(|Stop { fault, address }| Failure { fault, offset: u32::MAX, address })
        });
        *work = firing.work.get();
        stored
    }
}
