//! What a consumer has sent before it goes: options, programs, and what they need.

use core::ptr::NonNull;

use dtrace_abi::Platform;
use dtrace_abi::action::Action;
use dtrace_abi::dof::{self, ActDesc, Dof, EcbDesc, NO_SECTION, OptDesc, ProbeDesc, SectionKind};
use dtrace_abi::limits;
use dtrace_abi::spec::Spec;

use super::clause::{Act, Aggregation, Builder, Clause, Draft, Place};
use super::options::Options;
use super::refused::{Malformed, ProgramError};
use crate::arena::{Arena, Bundle, Owned};
use crate::buffer::ConsumerError;
use crate::dif::{
    Declarations, Declared, Dynamic, Extent, Memory, Program, Rights, Slot, Statics, Word,
};
use crate::postmortem::About;

/// What a consumer has sent.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) rights: Rights,
    /// The number that was last given to an enabled probe.
    pub(crate) last_epid: u32,
    /// A program of which not all pieces have come, and how many bytes have.
    pub(crate) incoming: Option<(Owned<[u8]>, usize)>,
    pub(crate) programs: Option<Programs>,
    /// The number of the program that came last.
    last_program: u32,
    /// The program that came last may still be refused: what there was before it.
    undecided: Option<Owned<Undecided>>,
    /// What was made when it first went, which goes with it.
    pub(crate) running: Bundle,
}

/// Programs that were taken.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Clauses and all that belongs to them.
    kept: Bundle,
    /// The memory of variables and strings, and the tables of their declarations.
    space: Bundle,
    pub(crate) memory: &'static Memory<'static>,
    declarations: Declarations<'static>,
    /// All clauses of a program, and those of the programs before it.
    clauses: Option<&'static Sent>,
    formats: Option<&'static Format>,
    /// The numbers that were last given to a format and an aggregation.
    last_format: u16,
    last_aggregation: u32,
    pub(crate) needs: Needs,
}

/// Programs as they were before one was taken that is being enabled.
#[derive(Debug)]
struct Undecided {
    /// Which one that is.
    number: u32,
    before: Option<Programs>,
}

/// The clauses of one program.
#[derive(Debug)]
struct Sent {
    clauses: &'static [Clause],
    before: Option<&'static Self>,
}

#[derive(Debug)]
struct Format {
    number: u16,
    text: &'static [u8],
    before: Option<&'static Self>,
}

/// What programs need when they run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Words of the longest record.
    pub(crate) record: usize,
    /// Words of the longest records of `dtrace:::END`, all together.
    pub(crate) end: usize,
    /// Words of the longest keys, 0 without aggregations; and of a whole tuple.
    pub(crate) tuple: usize,
    pub(crate) element: usize,
    /// Words of the largest dynamic variable, 0 without any.
    pub(crate) chunk: usize,
    pub(crate) speculates: bool,
}

/// A number of clauses that were taken together. They may be gone: who looks at one knows that their consumer is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    first: NonNull<Clause>,
    pub(crate) count: usize,
    /// Which program of the consumer's.
    number: u32,
}

// SAFETY: it points at what never changes; who looks there keeps to its contract, in whatever thread.
unsafe impl Send for Taken {}

impl Taken {
    /// The clause with an index.
    pub(crate) fn at(&self, index: usize) -> Option<NonNull<Clause>> {
        // SAFETY: it is one of them.
        (index < self.count).then(|| unsafe { self.first.add(index) })
    }
}

impl Session {
    pub(crate) fn new(rights: Rights) -> Self {
        Self {
            options: Options::new(),
            rights,
            last_epid: 0,
            incoming: None,
            programs: None,
            undecided: None,
            last_program: 0,
            running: Bundle::new(),
        }
    }

    /// Takes a program: checks it, and makes its clauses. If it is refused nothing has changed but options that it sets.
    /// Until it is [settled](Self::settle) it can be given [back](Self::undo).
    pub(crate) fn take(
        &mut self,
        arena: &mut Arena,
        cpus: usize,
        dof: &Dof<'_>,
        last_cache: &mut u32,
    ) -> Result<Taken, ConsumerError> {
        let left = arena.left();
        let no_room = ConsumerError::NoMemory { needed: dof.header().load_size as usize, left };
        self.set_options(dof)?;
        // Who took the one before has been overtaken.
        self.settle(arena);
        let number = self.last_program.wrapping_add(1);
        let undecided = arena.alloc(Undecided { number, before: None });
        let mut undecided = undecided.ok_or(no_room)?;
        let mut kept = Bundle::new();
        let mut space = Bundle::new();
        let result = self.make(arena, cpus, dof, (&mut kept, &mut space), last_cache);
        match result {
            Ok((mut taken, mut programs)) => {
                (programs.kept, programs.space) = (kept, space);
                (self.last_program, taken.number) = (number, number);
                undecided.before = self.programs.replace(programs);
                self.undecided = Some(undecided);
                Ok(taken)
            }
            Err(error) => {
                arena.free(undecided);
                // SAFETY: nothing of it has gone anywhere.
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

    /// The program that was taken last stays.
    pub(crate) fn settle(&mut self, arena: &mut Arena) {
        let Some(mut undecided) = self.undecided.take() else { return };
        let before = undecided.before.take();
        arena.free(undecided);
        if let (Some(programs), Some(before)) = (&mut self.programs, before) {
            programs.kept.append(before.kept);
            // SAFETY: its declarations have been moved, and no program has run yet.
            unsafe { before.space.free(arena) };
        }
    }

    /// A program that was taken could not be enabled: all is as it was before, unless another one has been taken since.
    ///
    /// # Safety
    /// The consumer has not gone yet, and none of its enablings is by this program.
    pub(crate) unsafe fn undo(&mut self, arena: &mut Arena, taken: &Taken) {
        if let Some(mut undecided) =
            self.undecided.take_if(|undecided| undecided.number == taken.number)
        {
            let refused = core::mem::replace(&mut self.programs, undecided.before.take());
            arena.free(undecided);
            if let Some(refused) = refused {
                // SAFETY: by the contract above nobody looks at it.
                unsafe {
                    refused.kept.free(arena);
                    refused.space.free(arena);
                }
            }
        }
    }

    /// Sets an option. That destructive actions may be can only be said by who may destroy (`dtrace_state_go`, dtrace.c).
    pub(crate) fn set_option(&mut self, option: u32, value: i64) -> Result<(), ConsumerError> {
        let bad = ConsumerError::BadOption { option, value };
        let mut options = self.options;
        options.set(option, value).map_err(|_| bad)?;
        if options.destructive() && !self.rights.control {
            return Err(ConsumerError::NotPermitted);
        }
        self.options = options;
        Ok(())
    }

    fn set_options(&mut self, dof: &Dof<'_>) -> Result<(), ConsumerError> {
        for section in dof.of_kind(SectionKind::OptDesc) {
            let table = dof.table::<OptDesc>(section, SectionKind::OptDesc);
            for OptDesc { option, value, .. } in table.map_err(ProgramError::from)? {
                self.set_option(option, value as i64)?;
            }
        }
        Ok(())
    }

    fn make(
        &self,
        arena: &mut Arena,
        cpus: usize,
        dof: &Dof<'_>,
        (kept, space): (&mut Bundle, &mut Bundle),
        last_cache: &mut u32,
    ) -> Result<(Taken, Programs), Failed> {
        let old = self.programs.as_ref();
        let extent = extent(arena, dof, old.map(|old| old.declarations.extent()))?;
        let (memory, tables) = room(arena, space, cpus, extent, self.options.string())?;
        let [globals, threads, locals] = tables;
        let declarations = match old {
            Some(old) => old.declarations.moved(memory, globals, threads, locals),
            None => Declarations::new(Platform::Freebsd, memory, globals, threads, locals),
        };
        let mut programs = Programs {
            kept: Bundle::new(),
            space: Bundle::new(),
            memory,
            declarations,
            clauses: old.and_then(|old| old.clauses),
            formats: old.and_then(|old| old.formats),
            last_format: old.map_or(0, |old| old.last_format),
            last_aggregation: old.map_or(0, |old| old.last_aggregation),
            needs: old.map_or(Needs::default(), |old| old.needs),
        };
        let count = dof.ecbs().count();
        let clauses = kept.slice(arena, count, |_| Clause::EMPTY).ok_or(Failed::NoRoom)?;
        for (index, (ecb, clause)) in dof.ecbs().zip(&mut *clauses).enumerate() {
            let mut maker = Maker {
                programs: &mut programs,
                options: &self.options,
                last_cache,
                arena,
                kept,
                dof,
                index,
            };
            *clause = maker.clause(ecb)?;
        }
        let clauses: &'static [Clause] = clauses;
        let first = NonNull::from(clauses).cast();
        let taken = Taken { first, count: clauses.len(), number: 0 };
        let sent = kept.alloc(arena, Sent { clauses, before: programs.clauses });
        programs.clauses = Some(sent.ok_or(Failed::NoRoom)?);
        Ok((taken, programs))
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// The consumer has no enablings any more, and since then every CPU has been outside probe context.
    pub(crate) unsafe fn free(mut self, arena: &mut Arena) {
        self.settle(arena);
        if let Some((bytes, _)) = self.incoming {
            arena.free(bytes);
        }
        // SAFETY: by the contract above.
        unsafe {
            if let Some(programs) = self.programs {
                programs.kept.free(arena);
                programs.space.free(arena);
            }
            self.running.free(arena);
        }
    }
}

impl Programs {
    /// The text of a format.
    pub(crate) fn format(&self, number: u16) -> Option<&'static [u8]> {
        let mut formats = core::iter::successors(self.formats, |format| format.before);
        formats.find(|format| format.number == number).map(|format| format.text)
    }

    /// All clauses.
    fn clauses(&self) -> impl Iterator<Item = &'static Clause> + use<> {
        let sent = core::iter::successors(self.clauses, |sent| sent.before);
        sent.flat_map(|sent| sent.clauses)
    }

    /// All aggregations, with the clauses that they are in.
    fn aggregations(
        &self,
    ) -> impl Iterator<Item = (&'static Clause, &'static Aggregation)> + use<> {
        self.clauses().flat_map(|clause| {
            clause.acts.iter().filter_map(move |act| match &act.place {
                Place::Value(found) => Some((clause, found)),
                _ => None,
            })
        })
    }

    /// The aggregation with a number, and the clause that it is in.
    pub(crate) fn aggregation(&self, id: u32) -> Option<(&'static Clause, &'static Aggregation)> {
        self.aggregations().find(|(_, found)| found.id == id)
    }

    /// All that has to be known to read what they leave behind.
    pub(crate) fn notes(&self) -> impl Iterator<Item = About> + use<> {
        let clauses = self.clauses().map(About::Clause);
        let aggregations = self.aggregations().map(|(clause, of)| About::Aggregation(clause, of));
        let formats = core::iter::successors(self.formats, |format| format.before);
        let formats = formats.map(|format| About::Format(format.number, format.text));
        clauses.chain(aggregations).chain(formats)
    }
}

enum Failed {
    NoRoom,
    Program(ProgramError),
}

impl From<ProgramError> for Failed {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl From<dof::DofError> for Failed {
    fn from(error: dof::DofError) -> Self {
        Self::Program(error.into())
    }
}

/// Calls `f` with every program of a DOF. Sections may be used by several, so little of it can be a lot to do: what is
/// looked at is as long in all as a DOF can be, which is no bound on one that says everything once.
fn for_each_difo(
    dof: &Dof<'_>,
    mut f: impl FnMut(&dof::Difo<'_>) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let mut left = limits::DOF_SIZE;
    let mut each = |difo: Option<dof::Difo<'_>>| {
        let bytes = difo.as_ref().map_or(ActDesc::SIZE, dof::Difo::size);
        left = left.checked_sub(bytes as u64).ok_or(ProgramError::Repeats)?;
        difo.map_or(Ok(()), |difo| f(&difo))
    };
    for ecb in dof.ecbs() {
        let desc = dof.record::<EcbDesc>(ecb, SectionKind::EcbDesc)?;
        if desc.predicate != NO_SECTION {
            each(Some(dof.difo(desc.predicate)?))?;
        }
        if desc.actions != NO_SECTION {
            for act in dof.table::<ActDesc>(desc.actions, SectionKind::ActDesc)? {
                let difo = (act.difo != NO_SECTION).then(|| dof.difo(act.difo)).transpose()?;
                each(difo)?;
            }
        }
    }
    Ok(())
}

/// How much room there has to be for variables and strings of all programs.
fn extent(arena: &mut Arena, dof: &Dof<'_>, old: Option<Extent>) -> Result<Extent, Failed> {
    let mut extent = old.unwrap_or_default();
    for_each_difo(dof, |difo| {
        extent.count(difo);
        Ok(())
    })?;
    let mut bundle = Bundle::new();
    let mut seen = extent.variables.map(|count| bundle.slice(arena, count, |_| false));
    let result = match &mut seen {
        [Some(globals), Some(threads), Some(locals)] => for_each_difo(dof, |difo| {
            extent.add(difo, [&mut **globals, &mut **threads, &mut **locals]);
            Ok(())
        }),
        _ => Err(Failed::NoRoom),
    };
    // SAFETY: nobody uses it any more.
    unsafe { bundle.free(arena) };
    result.map(|()| extent)
}

type Tables = [&'static mut [Declared]; 3];

fn room(
    arena: &mut Arena,
    space: &mut Bundle,
    cpus: usize,
    extent: Extent,
    string_size: u32,
) -> Result<(&'static Memory<'static>, Tables), Failed> {
    let mut words = |count: usize| -> Result<&'static [Word], Failed> {
        Ok(space.slice(arena, count, |_| Word::new()).ok_or(Failed::NoRoom)?)
    };
    let [globals, threads, locals] = extent.variables;
    let memory = Memory {
        literals: words(extent.literals)?,
        globals: Statics { extents: words(globals)?, words: words(extent.globals)?, copies: 1 },
        locals: Statics {
            extents: words(locals)?,
            words: words(extent.locals.saturating_mul(cpus))?,
            copies: cpus,
        },
        dynamic: Dynamic::new(&[], &[], &[], &[], 0, &[]),
        string_size,
    };
    let mut table = |count| space.slice(arena, count, |_| Declared::NONE).ok_or(Failed::NoRoom);
    let tables = [table(globals)?, table(threads)?, table(locals)?];
    let memory = space.alloc(arena, memory).ok_or(Failed::NoRoom)?;
    Ok((memory, tables))
}

/// Makes a clause.
struct Maker<'a, 'd> {
    programs: &'a mut Programs,
    options: &'a Options,
    last_cache: &'a mut u32,
    arena: &'a mut Arena,
    kept: &'a mut Bundle,
    dof: &'a Dof<'d>,
    /// Which one.
    index: usize,
}

impl Maker<'_, '_> {
    fn clause(&mut self, ecb: u32) -> Result<Clause, Failed> {
        let desc = self.dof.record::<EcbDesc>(ecb, SectionKind::EcbDesc)?;
        let (_, spec) = which(self.dof, &desc, self.index)?;
        let mut clause = Clause { uarg: desc.uarg, ..Clause::EMPTY };
        if desc.predicate != NO_SECTION {
            let index = self.index;
            let invalid = |invalid| ProgramError::Predicate(index, invalid);
            let program = self.program(desc.predicate, invalid)?;
            if program.is_cacheable() {
                // No number is another predicate's, whoever's it is. When there is none left, nothing more is cached.
                clause.cache = self.last_cache.checked_add(1).unwrap_or(0);
                *self.last_cache = self.last_cache.saturating_add(1);
            }
            clause.guard = program.guard();
            clause.predicate = Some(program);
        }
        let index = self.index;
        let malformed = |act, problem| ProgramError::Malformed(index, act, problem);
        let mut builder = Builder::new(self.options);
        let mut acts: &'static mut [Act] = &mut [];
        if desc.actions != NO_SECTION {
            let table = self.dof.table::<ActDesc>(desc.actions, SectionKind::ActDesc)?;
            let count = table.len();
            if count as u64 > limits::ACTIONS {
                return Err(malformed(0, Malformed::TooMany(count)).into());
            }
            acts = self.kept.slice(self.arena, count, |_| Act::EMPTY).ok_or(Failed::NoRoom)?;
            for (at, act) in table.enumerate() {
                let malformed = |problem| ProgramError::Malformed(index, at, problem);
                let draft = self.draft(&act, at)?;
                let (before, rest) = acts.split_at_mut(at);
                let made = builder.add(before, draft, &mut self.programs.last_aggregation);
                if let Some(place) = rest.first_mut() {
                    *place = made.map_err(malformed)?;
                }
            }
        }
        clause.layout = builder.finish(acts).map_err(|problem| malformed(acts.len(), problem))?;
        let needs = &mut self.programs.needs;
        needs.record = needs.record.max(clause.layout.words());
        needs.tuple = needs.tuple.max(clause.layout.tuple);
        needs.speculates |= clause.layout.speculates;
        if spec.matches([b"dtrace", b"", b"", b"END"]) {
            needs.end = needs.end.saturating_add(clause.layout.words());
        }
        for act in &*acts {
            if let Place::Value(aggregation) = &act.place {
                needs.element = needs.element.max(aggregation.size() as usize / 8);
            }
        }
        clause.acts = acts;
        Ok(clause)
    }

    fn draft(&mut self, act: &ActDesc, at: usize) -> Result<Draft, Failed> {
        let index = self.index;
        let malformed = |problem| ProgramError::Malformed(index, at, problem);
        let unknown = malformed(Malformed::Action(act.kind));
        let kind = u16::try_from(act.kind).ok().and_then(Action::from_number).ok_or(unknown)?;
        let mut draft =
            Draft { kind, program: None, keys: act.keys, arg: act.arg, uarg: act.uarg, format: 0 };
        if act.difo != NO_SECTION {
            let program =
                self.program(act.difo, |invalid| ProgramError::Action(index, at, invalid))?;
            draft.program = Some(program);
        }
        if act.strings != NO_SECTION {
            let text = self.dof.string(act.strings, act.arg)?;
            draft.format = self.format(text, malformed(Malformed::Formats))?;
            draft.arg = 0;
        }
        Ok(draft)
    }

    fn program(
        &mut self,
        section: u32,
        invalid: impl FnOnce(crate::dif::Invalid) -> ProgramError,
    ) -> Result<Program<'static>, Failed> {
        let difo = self.dof.difo(section)?;
        let count = difo.instructions().len();
        let slots = self.kept.slice(self.arena, count, |_| Slot::EMPTY).ok_or(Failed::NoRoom)?;
        let destructive = self.options.destructive();
        let declarations = &mut self.programs.declarations;
        let program = Program::new(&difo, declarations, destructive, slots).map_err(invalid)?;
        self.programs.needs.chunk = self.programs.needs.chunk.max(program.chunk_words());
        Ok(program)
    }

    /// The number of a text, which each has once (`dtrace_format_add`).
    fn format(&mut self, text: &[u8], too_many: ProgramError) -> Result<u16, Failed> {
        let programs = &mut *self.programs;
        let mut formats = core::iter::successors(programs.formats, |format| format.before);
        if let Some(found) = formats.find(|format| format.text == text) {
            return Ok(found.number);
        }
        let number = programs.last_format.checked_add(1).ok_or(too_many)?;
        let mut bytes = text.iter().copied();
        let text = self.kept.slice(self.arena, text.len(), |_| bytes.next().unwrap_or(0));
        let text = text.ok_or(Failed::NoRoom)?;
        let format = Format { number, text, before: programs.formats };
        programs.formats = Some(self.kept.alloc(self.arena, format).ok_or(Failed::NoRoom)?);
        programs.last_format = number;
        Ok(number)
    }
}

/// Which probes a clause of a DOF is for: the one with a number, or 0, and those with these names.
pub(crate) fn which(
    dof: &Dof<'_>,
    desc: &EcbDesc,
    index: usize,
) -> Result<(u32, Spec), ProgramError> {
    let probe = dof.record::<ProbeDesc>(desc.probe, SectionKind::ProbeDesc)?;
    let text = |offset: u32| dof.string(probe.strings, offset.into());
    let names =
        [text(probe.provider)?, text(probe.module)?, text(probe.function)?, text(probe.name)?];
    let spec = Spec::of_fields(names).map_err(|error| ProgramError::Spec(index, error))?;
    Ok((probe.id, spec))
}
