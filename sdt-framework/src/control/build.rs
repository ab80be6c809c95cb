//! Checks programs in DOF, and builds clauses from them.

use dtrace_abi::Platform;
use dtrace_abi::action::Action;
use dtrace_abi::dof::{self, ActDesc, Dof, EcbDesc, NO_SECTION, ProbeDesc, SectionKind};
use dtrace_abi::limits;
use dtrace_abi::spec::Spec;
use sdt_core::ops::ARGS;

use crate::base::arena::{Arena, Bundle};
use crate::base::word::Word;
use crate::control::arguments;
use crate::control::builder::{Builder, Draft};
use crate::control::options::Options;
use crate::control::programs::{Format, Programs, Sent};
use crate::control::refused::{Malformed, ProgramError};
use crate::control::steps;
use crate::machine::{
    Declarations, Declared, Dynamic, Extent, Invalid, Memory, Program, Slot, Source, Statics,
};
use crate::run::clause::{Clause, ClauseAction, Target, Test};
use crate::run::fire::HAS_INTERPRETER;
use crate::run::make::Needs;
use crate::run::step::Step;

impl Programs {
    /// Builds the programs of a consumer: its earlier programs `old`, and the new program `dof`.
    pub(super) fn from_dof(
        old: Option<&Self>,
        options: &Options,
        arena: &mut Arena,
        cpus: usize,
        dof: &Dof<'_>,
        (kept, space): (&mut Bundle, &mut Bundle),
        last_cache: &mut u32,
    ) -> Result<(&'static [Clause], Self), Failed> {
        let extent = extent(arena, dof, old.map(|old| old.declarations.extent()))?;
        let mut programs = Self::with_room(old, options, arena, cpus, extent, space)?;
        let count = dof.ecbs().count();
        let clauses = kept.slice(arena, count, |_| Clause::EMPTY).ok_or(Failed::NoRoom)?;
        for (index, (ecb, clause)) in dof.ecbs().zip(&mut *clauses).enumerate() {
            let mut maker = Maker { programs: &mut programs, options, arena, kept };
            *clause = maker.clause(dof, ecb, index, last_cache)?;
        }
        let clauses = programs.keep(arena, kept, clauses)?;
        Ok((clauses, programs))
    }

    /// Adds the clause that records a probe's arguments to the programs of a consumer.
    pub(super) fn arguments(
        old: Option<&Self>,
        options: &Options,
        arena: &mut Arena,
        cpus: usize,
        (kept, space): (&mut Bundle, &mut Bundle),
    ) -> Result<(&'static Clause, Self), Failed> {
        let extent = old.map(|old| old.declarations.extent()).unwrap_or_default();
        let mut programs = Self::with_room(old, options, arena, cpus, extent, space)?;
        let clauses = kept.slice(arena, 1, |_| Clause::EMPTY).ok_or(Failed::NoRoom)?;
        let mut maker = Maker { programs: &mut programs, options, arena, kept };
        if let Some(clause) = clauses.first_mut() {
            *clause = maker.arguments()?;
        }
        let clauses = programs.keep(arena, kept, clauses)?;
        Ok((clauses.first().ok_or(Failed::NoRoom)?, programs))
    }

    /// Copies the programs to memory with room for the variables and strings of more programs.
    fn with_room(
        old: Option<&Self>,
        options: &Options,
        arena: &mut Arena,
        cpus: usize,
        extent: Extent,
        space: &mut Bundle,
    ) -> Result<Self, Failed> {
        let (memory, tables) = room(arena, space, cpus, extent, options.string())?;
        let [globals, threads, locals] = tables;
        let declarations = match old {
            Some(old) => old.declarations.moved(memory, globals, threads, locals),
            None => Declarations::new(Platform::Freebsd, memory, globals, threads, locals),
        };
        Ok(Self {
            kept: Bundle::new(),
            space: Bundle::new(),
            memory,
            declarations,
            clauses: old.and_then(|old| old.clauses),
            formats: old.and_then(|old| old.formats),
            last_format: old.map_or(0, |old| old.last_format),
            last_aggregation: old.map_or(0, |old| old.last_aggregation),
            needs: old.map_or(Needs::default(), |old| old.needs),
        })
    }

    /// Adds clauses to the programs, and decodes the steps of those that need no machine.
    fn keep(
        &mut self,
        arena: &mut Arena,
        kept: &mut Bundle,
        clauses: &'static mut [Clause],
    ) -> Result<&'static [Clause], Failed> {
        // The steps of all clauses are adjacent, in the order in which a probe with many enablings executes them.
        let count = clauses.iter().filter_map(|clause| steps::count(clause.actions)).sum();
        let mut steps = kept.slice(arena, count, |_| Step::EMPTY).ok_or(Failed::NoRoom)?;
        for (index, clause) in clauses.iter_mut().enumerate() {
            let count = steps::count(clause.actions);
            if !HAS_INTERPRETER && (count.is_none() || matches!(clause.test, Test::Program)) {
                return Err(ProgramError::NoInterpreter(index).into());
            }
            let Some(count) = count else {
                self.needs.scratch = true;
                continue;
            };
            self.needs.scratch |= matches!(clause.test, Test::Program);
            let halves = core::mem::take(&mut steps).split_at_mut_checked(count);
            if let Some((own, rest)) = halves {
                own.iter_mut()
                    .zip(steps::steps(clause.actions).flatten())
                    .for_each(|(to, it)| *to = it);
                // The machine reads strings that the steps cannot read.
                self.needs.scratch |= own.iter().any(Step::is_text);
                clause.plain = Some(own);
                steps = rest;
            }
        }
        let clauses: &'static [Clause] = clauses;
        let sent = kept.alloc(arena, Sent { clauses, before: self.clauses });
        self.clauses = Some(sent.ok_or(Failed::NoRoom)?);
        Ok(clauses)
    }
}

/// The reason why clauses could not be built.
pub(super) enum Failed {
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

/// Calls `f` with every program of a DOF. Clauses can share sections, so a small DOF can contain much work. The total size of
/// the programs, counted with repetitions, is limited to the size of the largest DOF.
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
            for act in dof.actions(desc.actions)? {
                let difo = (act.difo != NO_SECTION).then(|| dof.difo(act.difo)).transpose()?;
                each(difo)?;
            }
        }
    }
    Ok(())
}

/// Computes the room for variables and strings of all programs.
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
    // SAFETY: `seen`, the only user of the bundle, is not used below.
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

/// The builder of clauses.
struct Maker<'a> {
    programs: &'a mut Programs,
    options: &'a Options,
    arena: &'a mut Arena,
    kept: &'a mut Bundle,
}

impl Maker<'_> {
    /// Builds the clause of a DOF with this index.
    fn clause(
        &mut self,
        dof: &Dof<'_>,
        ecb: u32,
        index: usize,
        last_cache: &mut u32,
    ) -> Result<Clause, Failed> {
        let desc = dof.record::<EcbDesc>(ecb, SectionKind::EcbDesc)?;
        let spec = which(dof, &desc, index)?;
        let mut clause = Clause { uarg: desc.uarg, ..Clause::EMPTY };
        if desc.predicate != NO_SECTION {
            let invalid = |invalid| ProgramError::Predicate(index, invalid);
            let program = self.program(&dof.difo(desc.predicate)?, invalid)?;
            if program.is_cacheable() {
                // The number of a predicate is unique among all consumers. When no number is left, no more predicates are cached.
                clause.cache = last_cache.checked_add(1).unwrap_or(0);
                *last_cache = last_cache.saturating_add(1);
            }
            clause.test = program.guard().map_or(Test::Program, Test::Guard);
            clause.predicate = Some(program);
        }
        let malformed = |act, problem| ProgramError::Malformed(index, act, problem);
        let table = match desc.actions {
            NO_SECTION => None,
            actions => Some(dof.actions(actions)?),
        };
        let count = table.as_ref().map_or(0, ExactSizeIterator::len);
        if count as u64 > limits::ACTIONS {
            return Err(malformed(0, Malformed::TooMany(count)).into());
        }
        let mut drafts = table.into_iter().flatten().enumerate();
        self.finish(clause, count, malformed, |this| {
            let (at, act) = drafts.next()?;
            Some(this.draft(dof, &act, (index, at)))
        })
        .inspect(|clause| {
            if spec.matches([b"dtrace", b"", b"", b"END"]) {
                let end = &mut self.programs.needs.end;
                *end = end.saturating_add(clause.layout.words());
            }
        })
    }

    /// Builds the clause that records a probe's arguments, as `trace(arg0); ... trace(arg9);` does.
    fn arguments(&mut self) -> Result<Clause, Failed> {
        let mut index = 0..ARGS as u8;
        let malformed = |act, problem| ProgramError::Malformed(0, act, problem);
        self.finish(Clause::EMPTY, ARGS, malformed, |this| {
            let index = index.next()?;
            let invalid = |invalid| ProgramError::Action(0, index.into(), invalid);
            let code = arguments::code(index);
            let program = match this.program(&arguments::difo(&code), invalid) {
                Ok(program) => Some(program),
                Err(error) => return Some(Err(error)),
            };
            let kind = Action::DifExpr;
            Some(Ok(Draft { kind, program, keys: 0, arg: 0, uarg: 0, format: 0 }))
        })
    }

    /// Adds `count` actions to a clause.
    fn finish(
        &mut self,
        mut clause: Clause,
        count: usize,
        malformed: impl Fn(usize, Malformed) -> ProgramError,
        mut next: impl FnMut(&mut Self) -> Option<Result<Draft, Failed>>,
    ) -> Result<Clause, Failed> {
        let mut builder = Builder::new(self.options);
        let actions = self.kept.slice(self.arena, count, |_| ClauseAction::EMPTY);
        let actions: &'static mut [ClauseAction] = actions.ok_or(Failed::NoRoom)?;
        for at in 0..count {
            let Some(draft) = next(self) else { break };
            let (before, rest) = actions.split_at_mut(at);
            let made = builder.add(before, draft?, &mut self.programs.last_aggregation);
            if let Some(place) = rest.first_mut() {
                *place = made.map_err(|problem| malformed(at, problem))?;
            }
        }
        let layout = builder.finish(actions).map_err(|problem| malformed(count, problem))?;
        clause.layout = layout.priced(&clause.test, actions);
        let needs = &mut self.programs.needs;
        needs.record = needs.record.max(clause.layout.words());
        needs.tuple = needs.tuple.max(clause.layout.tuple as usize);
        needs.speculates |= clause.layout.speculates;
        for action in &*actions {
            if let Target::Value(aggregation) = &action.target {
                needs.element = needs.element.max(aggregation.size() as usize / 8);
            }
        }
        clause.actions = actions;
        Ok(clause)
    }

    fn draft(
        &mut self,
        dof: &Dof<'_>,
        act: &ActDesc,
        (index, at): (usize, usize),
    ) -> Result<Draft, Failed> {
        let malformed = |problem| ProgramError::Malformed(index, at, problem);
        let unknown = malformed(Malformed::Action(act.kind));
        let kind = u16::try_from(act.kind).ok().and_then(Action::from_number).ok_or(unknown)?;
        let mut draft =
            Draft { kind, program: None, keys: act.keys, arg: act.arg, uarg: act.uarg, format: 0 };
        if act.difo != NO_SECTION {
            let program = self.program(&dof.difo(act.difo)?, |invalid| {
                ProgramError::Action(index, at, invalid)
            })?;
            draft.program = Some(program);
        }
        let takes_format = match kind {
            // The format is optional.
            Action::Printa | Action::DifExpr => act.strings != NO_SECTION,
            kind => kind.is_printf_like(),
        };
        if takes_format {
            let text = dof.string(act.strings, act.arg)?;
            if text.is_empty() {
                return Err(malformed(Malformed::EmptyFormat(kind)).into());
            }
            draft.format = self.format(text, malformed(Malformed::Formats))?;
        }
        if takes_format || kind == Action::Printa {
            draft.arg = 0;
        }
        Ok(draft)
    }

    fn program(
        &mut self,
        difo: &impl Source,
        invalid: impl FnOnce(Invalid) -> ProgramError,
    ) -> Result<Program<'static>, Failed> {
        let count = difo.instructions().len();
        let slots = self.kept.slice(self.arena, count, |_| Slot::EMPTY).ok_or(Failed::NoRoom)?;
        let destructive = self.options.destructive();
        let declarations = &mut self.programs.declarations;
        let program = Program::new(difo, declarations, destructive, slots).map_err(invalid)?;
        self.programs.needs.chunk = self.programs.needs.chunk.max(program.chunk_words());
        Ok(program)
    }

    /// Returns the number of a format; equal texts have one number (`dtrace_format_add`).
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

/// Returns the probe description of a clause of a DOF. As in DTrace, the number in the description is ignored.
pub(crate) fn which(dof: &Dof<'_>, desc: &EcbDesc, index: usize) -> Result<Spec, ProgramError> {
    let probe = dof.record::<ProbeDesc>(desc.probe, SectionKind::ProbeDesc)?;
    let text = |offset: u32| dof.string(probe.strings, offset.into());
    let names =
        [text(probe.provider)?, text(probe.module)?, text(probe.function)?, text(probe.name)?];
    Spec::of_fields(names).map_err(|error| ProgramError::Spec(index, error))
}
