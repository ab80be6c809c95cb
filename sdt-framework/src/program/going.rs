//! Consumers send options and programs, go and stop (`dtrace_state_go`, `dtrace_state_stop`).

use core::sync::atomic::Ordering;

use dtrace_abi::dof::{Dof, EcbDesc, SectionKind};
use dtrace_abi::limits::DOF_SIZE;

use super::making::which;
use super::refused::ProgramError;
use super::session::{Session, Taken};
use crate::arena::Arena;
use crate::buffer::{self, Activity, Buffer, Consumer, ConsumerError, ConsumerId, LONGEST};
use crate::dtrace::{Dtrace, Shared};
use crate::ecb::{Wanted, What};
use crate::host::Host;
use crate::providers::Own;
use crate::registry::tables::Tables;

impl<H: Host> Dtrace<H> {
    /// Sets an option of a consumer's run, as `DTRACEOPT_*` numbers them, before it goes. Those that are the consumer's
    /// own affair are taken and not looked at.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Going`], [`ConsumerError::BadOption`]; [`ConsumerError::NotPermitted`] for
    /// `destructive`.
    pub fn set_option(&self, id: ConsumerId, option: u32, value: i64) -> Result<(), ConsumerError> {
        self.before_it_goes(id, |_, session, cpus| session.set_option(option, value, cpus))
    }

    /// Calls `f` with what a consumer has sent that has not gone yet.
    fn before_it_goes<R>(
        &self,
        id: ConsumerId,
        f: impl FnOnce((&mut Arena, &mut u32), &mut Session, usize) -> Result<R, ConsumerError>,
    ) -> Result<R, ConsumerError> {
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (index, consumer) = shared.consumer(id)?;
        if consumer.activity() != Activity::Inactive {
            return Err(ConsumerError::Going(id));
        }
        let Tables { arena, sessions, last_predicate, .. } = &mut *tables;
        let session = sessions.get_mut(index).and_then(Option::as_deref_mut);
        f((arena, last_predicate), session.ok_or(ConsumerError::NotOpen(id))?, shared.cpus.len())
    }

    /// Takes a piece of a program in DOF. Pieces come in order; the first one drops what there was of another. With the
    /// last one the program is [enabled](Self::enable_program).
    ///
    /// # Errors
    /// As there; [`ConsumerError::NoMemory`]. What there is of the program is dropped.
    pub fn program_piece(
        &self,
        id: ConsumerId,
        size: usize,
        at: usize,
        piece: &[u8],
    ) -> Result<Option<u32>, ConsumerError> {
        let whole = self.before_it_goes(id, |(arena, _), session, _| {
            let mut incoming = session.incoming.take();
            if at == 0 {
                if let Some((old, _)) = incoming.take() {
                    arena.free(old);
                }
                if size as u64 > DOF_SIZE {
                    return Err(ProgramError::Long(size as u64).into());
                }
                let left = arena.left();
                let no_room = ConsumerError::NoMemory { needed: size, left };
                incoming = Some((arena.slice(size, |_| 0).ok_or(no_room)?, 0));
            }
            let Some((mut bytes, received)) = incoming else {
                return Err(ProgramError::Pieces.into());
            };
            let place = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..piece.len()));
            match place.filter(|_| received == at) {
                Some(place) => place.copy_from_slice(piece),
                None => {
                    arena.free(bytes);
                    return Err(ProgramError::Pieces.into());
                }
            }
            if at + piece.len() < bytes.len() {
                session.incoming = Some((bytes, at + piece.len()));
                return Ok(None);
            }
            Ok(Some(bytes))
        })?;
        let Some(bytes) = whole else { return Ok(None) };
        let result = self.enable_program(id, &bytes);
        self.tables.lock().arena.free(bytes);
        result.map(Some)
    }

    /// Takes a program in DOF, before the consumer goes: checks it, and enables its clauses. Options in it are set.
    /// Returns how many enabled probes (ECBs) its clauses make; none is no error. The enablings are retained, as those of
    /// [`enable`](Self::enable).
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Going`], [`ConsumerError::Program`],
    /// [`ConsumerError::BadOption`], [`ConsumerError::TooManyEnablings`], [`ConsumerError::NoMemory`]; nothing of it
    /// stays enabled.
    pub fn enable_program(&self, id: ConsumerId, dof: &[u8]) -> Result<u32, ConsumerError> {
        let dof = Dof::parse(dof).map_err(ProgramError::from)?;
        let taken: Taken = self.before_it_goes(id, |(arena, last), session, cpus| {
            session.take(arena, cpus, &dof, last)
        })?;
        let (mut enabled, mut first) = (0, None);
        let mut result = Ok(());
        for (index, ecb) in dof.ecbs().enumerate() {
            match self.enable_clause(id, &dof, ecb, (&taken, index), first) {
                Ok((probes, number)) => {
                    enabled += probes;
                    first.get_or_insert(number);
                }
                Err(error) => {
                    self.take_back(id, |_, what| taken.has(what));
                    result = Err(error);
                    break;
                }
            }
        }
        let settled = self.before_it_goes(id, |(arena, _), session, _| {
            match result {
                Ok(()) => session.settle(arena),
                // SAFETY: it has not gone, and what this program has enabled has been taken back.
                Err(_) => unsafe { session.undo(arena, &taken) },
            }
            Ok(())
        });
        match settled {
            // Somebody else had it go meanwhile: what was taken is its until it closes.
            Ok(()) | Err(ConsumerError::Going(_)) => result.map(|()| enabled),
            Err(error) => Err(error),
        }
    }

    fn enable_clause(
        &self,
        id: ConsumerId,
        dof: &Dof<'_>,
        ecb: u32,
        (taken, index): (&Taken, usize),
        first: Option<usize>,
    ) -> Result<(u32, usize), ConsumerError> {
        let desc = dof.record::<EcbDesc>(ecb, SectionKind::EcbDesc).map_err(ProgramError::from)?;
        let (probe, spec) = which(dof, &desc, index)?;
        let clause = taken.at(index).ok_or(ProgramError::Pieces)?;
        let what = What::Clause(clause);
        self.enable_wanted(id, &Wanted { spec: &spec, probe, what, program: Some(first) })
    }

    /// From here on is recorded for the consumer. The first time its buffers are made: those that its programs need, and,
    /// unless it has sent programs and nothing else, those of arguments that are recorded. `dtrace:::BEGIN` has fired for
    /// it before the return.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::NoMemory`]: another size can be [chosen](Self::set_buffer);
    /// [`ConsumerError::SmallBuffer`] if the one that is chosen holds no record.
    pub fn go(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.begin(id).map(drop)
    }

    /// As [`go`](Self::go); returns the CPU on which `dtrace:::BEGIN` has fired.
    ///
    /// # Errors
    /// As there.
    pub fn begin(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (index, consumer) = shared.consumer(id)?;
        if !matches!(consumer.activity(), Activity::Inactive | Activity::Stopped) {
            return Ok(self.host.without_interrupts(|| self.host.cpu()));
        }
        self.prepare(shared, &mut tables, id, index, consumer)?;
        if let Some(tracing) = consumer.tracing() {
            tracing.alive.set(self.host.timestamp());
        }
        consumer.turn(Activity::Warmup);
        let cpu = self.fire_own(Own::Begin, index, &[id.get().into(), 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.start_timers();
        consumer.turn_from(Activity::Warmup, Activity::Active);
        Ok(cpu)
    }

    /// Makes what a consumer needs to go, as far as it is not there.
    fn prepare(
        &self,
        shared: &Shared<H>,
        tables: &mut Tables,
        id: ConsumerId,
        index: usize,
        consumer: &Consumer<H>,
    ) -> Result<(), ConsumerError> {
        let sizes = (tables.buffer, tables.share);
        let records_arguments = tables.retains_arguments(index);
        let Tables { arena, sessions, map, .. } = tables;
        let session = sessions.get_mut(index).and_then(Option::as_deref_mut);
        let session = session.ok_or(ConsumerError::NotOpen(id))?;
        let cpus = shared.cpus.len();
        let made = if session.programs.is_some() && consumer.tracing().is_none() {
            let now = self.host.timestamp();
            let seen = (&*map, &consumer.activity);
            session.prepare(arena, cpus, id.get(), sizes, now, seen)?
        } else {
            None
        };
        if (session.programs.is_none() || records_arguments)
            && let Err(error) = Self::make_buffers(arena, cpus, consumer)
        {
            // It may send another program yet, and what it has then is made for all of them.
            if made.is_some() {
                // SAFETY: nothing of it has gone anywhere.
                unsafe { session.unprepare(arena) };
            }
            return Err(error);
        }
        if let Some(made) = made {
            // SAFETY: it has not gone since it was opened, and before that nothing of it was left.
            unsafe { consumer.give_tracing(Some(made.tracing)) };
            map.publish(index, id.get(), made.shown);
        }
        Ok(())
    }

    /// Makes the buffers of arguments, if it has none.
    fn make_buffers(
        arena: &mut Arena,
        cpus: usize,
        consumer: &Consumer<H>,
    ) -> Result<(), ConsumerError> {
        if !consumer.has_buffers() {
            let bytes = consumer.size.load(Ordering::Relaxed);
            if bytes < LONGEST {
                return Err(ConsumerError::SmallBuffer { bytes, least: LONGEST });
            }
            let left = arena.left();
            let buffers = buffer::allocate(arena, cpus, bytes / size_of::<u64>());
            let buffers = buffers.ok_or(ConsumerError::NoMemory {
                needed: cpus.saturating_mul(bytes).saturating_add(Arena::footprint::<Buffer>(cpus)),
                left,
            })?;
            // SAFETY: it is not going. It has none, so it has gone with programs alone since it was opened, or not at all, and
            // when it stopped every CPU left probe context.
            unsafe { consumer.give(buffers) };
        }
        Ok(())
    }

    /// Has the programs of each consumer take so many bytes at most for all their buffers together, so that others find
    /// room. It is for buffers that may be smaller than they were asked for (`bufresize=auto`, which is usual); who says
    /// `manual` gets what there is.
    pub fn share_memory(&self, bytes: usize) {
        self.tables.lock().share = bytes;
    }

    /// Ends the runs of all consumers that have programs, as if these had asked for it (`exit`): for a host that is about to go.
    /// Nothing more is recorded for them. They see it by their [status](Self::status), and take what there is.
    pub fn wind_up(&self) {
        let _tables = self.tables.lock();
        for consumer in self.shared().map_or(&[][..], |shared| shared.consumers) {
            consumer.turn_from(Activity::Active, Activity::Draining);
        }
    }

    /// How many consumers there are whose programs have gone, and may have left something to take. Who is
    /// [not there yet](Self::enable_anonymously) is none.
    pub fn with_programs(&self) -> usize {
        let tables = self.tables.lock();
        let consumers = self.shared().map_or(&[][..], |shared| shared.consumers);
        consumers
            .iter()
            .filter(|consumer| consumer.is_open() && consumer.tracing().is_some())
            .filter(|consumer| tables.anonymous.is_none_or(|id| !consumer.is(id)))
            .count()
    }

    /// Ends what [`go`](Self::go) began. After the return no CPU is writing for the consumer any more,
    /// so what is read then is complete; `dtrace:::END` has fired for it. Its enablings and buffers stay.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn stop(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.end(id).map(drop)
    }

    /// As [`stop`](Self::stop); returns the CPU on which `dtrace:::END` has fired.
    ///
    /// # Errors
    /// As there.
    pub fn end(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        let shared = self.shared()?;
        let _tables = self.tables.lock();
        let (index, consumer) = shared.consumer(id)?;
        let mut cpu = self.host.without_interrupts(|| self.host.cpu());
        if matches!(consumer.activity(), Activity::Active | Activity::Draining) {
            consumer.turn(Activity::Draining);
            self.host.sync();
            consumer.turn_from(Activity::Draining, Activity::Cooldown);
            cpu = self.fire_own(Own::End, index, &[id.get().into(), 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            consumer.turn_from(Activity::Cooldown, Activity::Stopped);
        }
        self.host.sync();
        Ok(cpu)
    }
}
