//! The state that a consumer sends before the start: options and programs.

use core::ptr::NonNull;

use dtrace_abi::dof::{Dof, NO_SECTION, OptDesc, SectionKind};
use dtrace_abi::option::UNSET;

use crate::base::arena::{Arena, Bundle, Owned};
use crate::control::build::Failed;
use crate::control::error::ConsumerError;
use crate::control::options::Options;
use crate::control::programs::Programs;
use crate::control::refused::ProgramError;
use crate::run::clause::Clause;
use crate::run::consumer::Consumer;

/// The options and programs that a consumer has sent, and the memory of its run.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) options: Options,
    /// The number that was last given to an enabled probe.
    pub(crate) last_epid: u32,
    /// An incomplete program, and the number of received bytes.
    pub(crate) incoming: Option<(Owned<[u8]>, usize)>,
    pub(crate) programs: Option<Programs>,
    /// The number of the last program.
    last_program: u32,
    /// The programs before the last one was added, while the last one may still be refused.
    undecided: Option<Owned<Undecided>>,
    /// The clause that records a probe's arguments, if something was enabled with it.
    pub(crate) arguments: Option<NonNull<Clause>>,
    /// The state of its run.
    pub(crate) running: Bundle,
}

// SAFETY: the clause never changes, and only `free` of this session frees it.
unsafe impl Send for Session {}

/// The state of the programs before the program that is being enabled was added.
#[derive(Debug)]
struct Undecided {
    /// The number of the consumer.
    number: u32,
    before: Option<Programs>,
}

/// Some clauses that were added together. They exist only while their consumer is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    first: NonNull<Clause>,
    pub(crate) count: usize,
    /// The number of the program.
    number: u32,
}

// SAFETY: the pointer refers to data that never changes; every reader follows the contract of the pointer, in any
// thread.
unsafe impl Send for Taken {}

impl Taken {
    /// Returns the clause with an index, if it exists.
    pub(crate) fn at(&self, index: usize) -> Option<NonNull<Clause>> {
        // SAFETY: `index` is less than the number of clauses, which are adjacent from `first` on.
        (index < self.count).then(|| unsafe { self.first.add(index) })
    }

    /// Returns whether `clause` is one of these clauses.
    pub(crate) fn has(&self, clause: NonNull<Clause>) -> bool {
        let first = self.first.addr().get();
        (first..first + self.count * size_of::<Clause>()).contains(&clause.addr().get())
    }
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            options: Options::new(),
            last_epid: 0,
            incoming: None,
            programs: None,
            undecided: None,
            last_program: 0,
            arguments: None,
            running: Bundle::new(),
        }
    }

    /// Checks a program and builds its clauses. If it is refused, only options that the program sets have changed.
    /// Until [`settle`](Self::settle) is called, [`undo`](Self::undo) can remove the program.
    pub(crate) fn take(
        &mut self,
        arena: &mut Arena,
        (cpus, consumer): (usize, &Consumer),
        dof: &Dof<'_>,
        last_cache: &mut u32,
    ) -> Result<Taken, ConsumerError> {
        let left = arena.left();
        let no_room = ConsumerError::NoMemory { needed: dof.header().load_size as usize, left };
        self.set_options(dof, cpus, consumer)?;
        // Keeps the previous program: the thread that is enabling it can no longer undo it.
        self.settle(arena);
        let number = self.last_program.wrapping_add(1);
        let undecided = arena.alloc(Undecided { number, before: None });
        let mut undecided = undecided.ok_or(no_room)?;
        let mut kept = Bundle::new();
        let mut space = Bundle::new();
        let room = (&mut kept, &mut space);
        let old = self.programs.as_ref();
        match Programs::from_dof(old, &self.options, arena, cpus, dof, room, last_cache) {
            Ok((clauses, mut programs)) => {
                (programs.kept, programs.space) = (kept, space);
                self.last_program = number;
                let first = NonNull::from(clauses).cast();
                let taken = Taken { first, count: clauses.len(), number };
                undecided.before = self.programs.replace(programs);
                self.undecided = Some(undecided);
                Ok(taken)
            }
            Err(error) => {
                arena.free(undecided);
                // SAFETY: no reference to these allocations exists: `from_dof` has failed and returned none.
                unsafe {
                    kept.free(arena);
                    space.free(arena);
                }
                Err(match error {
                    Failed::NoRoom => no_room,
                    Failed::Program(error) => ConsumerError::Program(error),
                })
            }
        }
    }

    /// Returns the clause that records a probe's arguments. Builds it at the first call.
    pub(crate) fn take_arguments(
        &mut self,
        arena: &mut Arena,
        cpus: usize,
    ) -> Result<NonNull<Clause>, ConsumerError> {
        if let Some(clause) = self.arguments {
            return Ok(clause);
        }
        let left = arena.left();
        self.settle(arena);
        let (mut kept, mut space) = (Bundle::new(), Bundle::new());
        let room = (&mut kept, &mut space);
        let old = self.programs.as_ref();
        let Ok((clause, mut programs)) = Programs::arguments(old, &self.options, arena, cpus, room)
        else {
            // SAFETY: no reference to these allocations exists: `Programs::arguments` has failed and returned none.
            unsafe {
                kept.free(arena);
                space.free(arena);
            }
            return Err(ConsumerError::NoMemory { needed: size_of::<Programs>(), left });
        };
        (programs.kept, programs.space) = (kept, space);
        if let Some(before) = self.programs.replace(programs) {
            self.absorb(arena, before);
        }
        self.arguments = Some(NonNull::from(clause));
        Ok(NonNull::from(clause))
    }

    /// Takes over the clauses of the earlier programs, to which the current ones link, and frees the other memory of
    /// the earlier ones.
    fn absorb(&mut self, arena: &mut Arena, before: Programs) {
        if let Some(programs) = &mut self.programs {
            programs.kept.append(before.kept);
            // SAFETY: `with_room` has copied its declarations to the memory of the current programs, and the consumer
            // has not started, so no CPU uses the old memory.
            unsafe { before.space.free(arena) };
        }
    }

    /// Keeps the last program: [`undo`](Self::undo) can no longer remove it.
    pub(crate) fn settle(&mut self, arena: &mut Arena) {
        let Some(mut undecided) = self.undecided.take() else { return };
        let before = undecided.before.take();
        arena.free(undecided);
        if let Some(before) = before {
            self.absorb(arena, before);
        }
    }

    /// Removes a program that could not be enabled, and restores the earlier programs. Does nothing if another program has been
    /// taken since.
    ///
    /// # Safety
    /// The consumer has not started yet, and none of its enablings uses a clause of this program.
    pub(crate) unsafe fn undo(&mut self, arena: &mut Arena, taken: &Taken) {
        if let Some(mut undecided) =
            self.undecided.take_if(|undecided| undecided.number == taken.number)
        {
            let refused = core::mem::replace(&mut self.programs, undecided.before.take());
            arena.free(undecided);
            if let Some(refused) = refused {
                // SAFETY: no enabling refers to the program, and the consumer has not started, as `# Safety` requires.
                unsafe {
                    refused.kept.free(arena);
                    refused.space.free(arena);
                }
            }
        }
    }

    /// Sets an option. Only a consumer with the right to destructive actions can set the option `destructive`
    /// (`dtrace_state_go`, dtrace.c).
    pub(crate) fn set_option(
        &mut self,
        option: u32,
        value: i64,
        cpus: usize,
        consumer: &Consumer,
    ) -> Result<(), ConsumerError> {
        let bad = ConsumerError::BadOption { option, value };
        let mut options = self.options;
        options.set(option, value, cpus).map_err(|_| bad)?;
        if options.destructive() && !consumer.access().control {
            return Err(ConsumerError::NotPermitted);
        }
        self.options = options;
        Ok(())
    }

    fn set_options(
        &mut self,
        dof: &Dof<'_>,
        cpus: usize,
        consumer: &Consumer,
    ) -> Result<(), ConsumerError> {
        for section in dof.of_kind(SectionKind::OptDesc) {
            let table = dof.table::<OptDesc>(section, SectionKind::OptDesc);
            for OptDesc { option, strings, value } in table.map_err(ProgramError::from)? {
                if strings != NO_SECTION || value as i64 == UNSET {
                    return Err(ConsumerError::BadOption { option, value: value as i64 });
                }
                self.set_option(option, value as i64, cpus, consumer)?;
            }
        }
        Ok(())
    }

    /// Frees all memory of the session.
    ///
    /// # Safety
    /// The consumer has no enablings any more, and since then every CPU has been outside probe context.
    pub(crate) unsafe fn free(mut self, arena: &mut Arena) {
        self.settle(arena);
        if let Some((bytes, _)) = self.incoming {
            arena.free(bytes);
        }
        // SAFETY: the enablings are removed, and every CPU has been outside probe context since, as `# Safety` requires.
        unsafe {
            if let Some(programs) = self.programs {
                programs.kept.free(arena);
                programs.space.free(arena);
            }
            self.running.free(arena);
        }
    }
}
