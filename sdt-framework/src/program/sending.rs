//! Consumers send options and programs, before they go.

use dtrace_abi::dof::{Dof, EcbDesc, SectionKind};
use dtrace_abi::limits::DOF_SIZE;

use super::making::which;
use super::refused::ProgramError;
use super::session::{Session, Taken};
use crate::arena::Arena;
use crate::buffer::{Activity, ConsumerError, ConsumerId};
use crate::dtrace::Dtrace;
use crate::ecb::{Wanted, What};
use crate::host::Host;
use crate::registry::tables::Tables;

/// # A consumer sends programs
///
/// And options for its run, both before it [goes](Self::go).
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

    /// An option of a consumer's run that is set, by itself or by a program, and its value: the first one with this number or a
    /// greater one. Also of a consumer that was [enabled](Self::enable_anonymously) before it came, or has gone.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn next_option(
        &self,
        id: ConsumerId,
        from: u32,
    ) -> Result<Option<(u32, i64)>, ConsumerError> {
        self.need_thread()?;
        let shared = self.shared()?;
        let tables = self.tables.lock();
        let (index, _) = shared.consumer(id)?;
        let session = tables.sessions.get(index).and_then(Option::as_deref);
        Ok(session.ok_or(ConsumerError::NotOpen(id))?.options.next(from))
    }

    /// Calls `f` with what a consumer has sent that has not gone yet.
    fn before_it_goes<R>(
        &self,
        id: ConsumerId,
        f: impl FnOnce((&mut Arena, &mut u32), &mut Session, usize) -> Result<R, ConsumerError>,
    ) -> Result<R, ConsumerError> {
        self.need_thread()?;
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
                if size as u64 >= DOF_SIZE {
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
        let dof = Dof::parse_program(dof).map_err(ProgramError::from)?;
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
        let spec = which(dof, &desc, index)?;
        let clause = taken.at(index).ok_or(ProgramError::Pieces)?;
        let what = What::Clause(clause);
        self.enable_wanted(id, &Wanted { spec: &spec, what, program: Some(first) })
    }
}
