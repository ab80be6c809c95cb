//! Consumers send options and programs, before they start.

use dtrace_abi::dof::{Dof, EcbDesc, SectionKind};
use dtrace_abi::limits::DOF_SIZE;

use crate::base::arena::Arena;
use crate::base::host::Host;
use crate::control::build::which;
use crate::control::enable::Wanted;
use crate::control::error::ConsumerError;
use crate::control::refused::ProgramError;
use crate::control::session::{Session, Taken};
use crate::control::tables::Tables;
use crate::control::{Control, find};
use crate::run::consumer::{Activity, Consumer, ConsumerId};

impl<H: Host> Control<H> {
    /// [`Dtrace::set_option`](crate::Dtrace::set_option).
    pub(crate) fn set_option(
        &self,
        id: ConsumerId,
        option: u32,
        value: i64,
    ) -> Result<(), ConsumerError> {
        self.before_start(id, |_, session, (cpus, consumer)| {
            session.set_option(option, value, cpus, consumer)
        })
    }

    /// [`Dtrace::next_option`](crate::Dtrace::next_option).
    pub(crate) fn next_option(
        &self,
        id: ConsumerId,
        from: u32,
    ) -> Result<Option<(u32, i64)>, ConsumerError> {
        let shared = self.shared()?;
        let tables = self.tables.lock();
        let (index, _) = find(shared, id)?;
        let session = tables.sessions.get(index).and_then(Option::as_deref);
        Ok(session.ok_or(ConsumerError::NotOpen(id))?.options.next(from))
    }

    /// Calls `f` with the session of a consumer that has not started yet.
    fn before_start<R>(
        &self,
        id: ConsumerId,
        f: impl FnOnce(
            (&mut Arena, &mut u32),
            &mut Session,
            (usize, &Consumer),
        ) -> Result<R, ConsumerError>,
    ) -> Result<R, ConsumerError> {
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (index, consumer) = find(shared, id)?;
        if consumer.activity() != Activity::Inactive {
            return Err(ConsumerError::Started(id));
        }
        let Tables { arena, sessions, last_predicate, .. } = &mut *tables;
        let session = sessions.get_mut(index).and_then(Option::as_deref_mut);
        let session = session.ok_or(ConsumerError::NotOpen(id))?;
        f((arena, last_predicate), session, (shared.cpus.len(), consumer))
    }

    /// [`Dtrace::program_piece`](crate::Dtrace::program_piece).
    pub(crate) fn program_piece(
        &self,
        id: ConsumerId,
        size: usize,
        at: usize,
        piece: &[u8],
    ) -> Result<Option<u32>, ConsumerError> {
        let whole = self.before_start(id, |(arena, _), session, _| {
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

    /// [`Dtrace::enable_program`](crate::Dtrace::enable_program).
    pub(crate) fn enable_program(&self, id: ConsumerId, dof: &[u8]) -> Result<u32, ConsumerError> {
        let dof = Dof::parse_program(dof).map_err(ProgramError::from)?;
        let taken: Taken = self.before_start(id, |(arena, last), session, given| {
            session.take(arena, given, &dof, last)
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
                    self.take_back(id, |_, clause| taken.has(clause));
                    result = Err(error);
                    break;
                }
            }
        }
        let settled = self.before_start(id, |(arena, _), session, _| {
            match result {
                Ok(()) => session.settle(arena),
                // SAFETY: `before_start` has checked that the consumer has not started, and `take_back` has removed all
                // enablings of this program.
                Err(_) => unsafe { session.undo(arena, &taken) },
            }
            Ok(())
        });
        match settled {
            // Another thread has started the consumer meanwhile: the program stays until the consumer closes.
            Ok(()) | Err(ConsumerError::Started(_)) => result.map(|()| enabled),
            Err(error) => Err(error),
        }
    }

    fn enable_clause(
        &self,
        id: ConsumerId,
        dof: &Dof<'_>,
        ecb: u32,
        (taken, index): (&Taken, usize),
        first: Option<u32>,
    ) -> Result<(u32, u32), ConsumerError> {
        let desc = dof.record::<EcbDesc>(ecb, SectionKind::EcbDesc).map_err(ProgramError::from)?;
        let spec = which(dof, &desc, index)?;
        let clause = taken.at(index).ok_or(ProgramError::Pieces)?;
        self.enable_wanted(id, &Wanted { spec: &spec, clause, program: Some(first) })
    }
}
