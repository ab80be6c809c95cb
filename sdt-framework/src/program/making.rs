//! Programs in DOF are checked, and become clauses.

use core::mem;

use dtrace_abi::Platform;
use dtrace_abi::action::Action;
use dtrace_abi::dof::{self, ActDesc, Dof, EcbDesc, NO_SECTION, ProbeDesc, SectionKind};
use dtrace_abi::limits;
use dtrace_abi::spec::Spec;

use super::clause::{Act, Builder, Clause, Draft, Place, Test};
use super::options::Options;
use super::plain::{self, Step};
use super::programs::{Format, Needs, Programs, Sent};
use super::refused::{Malformed, ProgramError};
use crate::arena::{Arena, Bundle};
use crate::dif::{Declarations, Declared, Dynamic, Extent, Memory, Program, Slot, Statics, Word};

impl Programs {
    /// Makes the programs of a consumer, with those that it has already and one that has come now.
    pub(super) fn make(
        old: Option<&Self>,
        options: &Options,
        arena: &mut Arena,
        cpus: usize,
        dof: &Dof<'_>,
        (kept, space): (&mut Bundle, &mut Bundle),
        last_cache: &mut u32,
    ) -> Result<(&'static [Clause], Self), Failed> {
        let extent = extent(arena, dof, old.map(|old| old.declarations.extent()))?;
        let (memory, tables) = room(arena, space, cpus, extent, options.string())?;
        let [globals, threads, locals] = tables;
        let declarations = match old {
            Some(old) => old.declarations.moved(memory, globals, threads, locals),
            None => Declarations::new(Platform::Freebsd, memory, globals, threads, locals),
        };
        let mut programs = Self {
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
            let mut maker =
                Maker { programs: &mut programs, options, last_cache, arena, kept, dof, index };
            *clause = maker.clause(ecb)?;
        }
        // Those of all clauses stand together: a probe that many have enabled goes through them in this order.
        let count = clauses.iter().filter_map(|clause| plain::count(clause.acts)).sum();
        let mut steps = kept.slice(arena, count, |_| Step::EMPTY).ok_or(Failed::NoRoom)?;
        for clause in &mut *clauses {
            let count = plain::count(clause.acts);
            let halves = count.and_then(|count| mem::take(&mut steps).split_at_mut_checked(count));
            if let Some((own, rest)) = halves {
                own.iter_mut()
                    .zip(plain::steps(clause.acts).flatten())
                    .for_each(|(to, it)| *to = it);
                clause.plain = Some(own);
                steps = rest;
            }
        }
        let clauses: &'static [Clause] = clauses;
        let sent = kept.alloc(arena, Sent { clauses, before: programs.clauses });
        programs.clauses = Some(sent.ok_or(Failed::NoRoom)?);
        Ok((clauses, programs))
    }
}

/// Why there are no clauses.
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
            for act in dof.actions(desc.actions)? {
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
        let spec = which(self.dof, &desc, self.index)?;
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
            clause.test = program.guard().map_or(Test::Program, Test::Guard);
            clause.predicate = Some(program);
        }
        let index = self.index;
        let malformed = |act, problem| ProgramError::Malformed(index, act, problem);
        let mut builder = Builder::new(self.options);
        let mut acts: &'static mut [Act] = &mut [];
        if desc.actions != NO_SECTION {
            let table = self.dof.actions(desc.actions)?;
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
        let layout = builder.finish(acts).map_err(|problem| malformed(acts.len(), problem))?;
        clause.layout = layout.priced(&clause.test, acts);
        let needs = &mut self.programs.needs;
        needs.record = needs.record.max(clause.layout.words());
        needs.tuple = needs.tuple.max(clause.layout.tuple as usize);
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
        let takes_format = match kind {
            Action::Printf | Action::System | Action::Freopen => true,
            // They can do without.
            Action::Printa | Action::DifExpr => act.strings != NO_SECTION,
            _ => false,
        };
        if takes_format {
            let text = self.dof.string(act.strings, act.arg)?;
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

/// Which probes a clause of a DOF is for: those with these names. As in DTrace the number in a description means nothing.
pub(crate) fn which(dof: &Dof<'_>, desc: &EcbDesc, index: usize) -> Result<Spec, ProgramError> {
    let probe = dof.record::<ProbeDesc>(desc.probe, SectionKind::ProbeDesc)?;
    let text = |offset: u32| dof.string(probe.strings, offset.into());
    let names =
        [text(probe.provider)?, text(probe.module)?, text(probe.function)?, text(probe.name)?];
    Spec::of_fields(names).map_err(|error| ProgramError::Spec(index, error))
}
