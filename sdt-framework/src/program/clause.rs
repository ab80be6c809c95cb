//! Clauses, as they are when probes fire: a predicate, and actions with their places in the record.

use dtrace_abi::action::{Action, UstackArg};
use dtrace_abi::dif::{DifType, TypeKind};
use dtrace_abi::record::{RecordDesc, RecordHeader};

use super::options::{Frames, Options};
use super::plain::Step;
use super::refused::Malformed;
use crate::aggregation::Function;
use crate::dif::{Failure, Firing, Guard, NUMBER, Program, Simple};
use crate::kernel::Kernel;

/// Bytes of the longest record.
const LONGEST: u32 = 1 << 24;

/// What an enabling by a program does. Never changed once it is enabled. What every hit looks at comes first, on one cache
/// line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Clause {
    pub(crate) test: Test,
    /// What its actions do, if they are [plain](super::plain).
    pub(crate) plain: Option<&'static [Step]>,
    pub(crate) layout: Layout,
    pub(crate) predicate: Option<Program<'static>>,
    pub(crate) acts: &'static [Act],
    /// The number of the predicate in predicate caches, or 0.
    pub(crate) cache: u32,
    /// What the program's writer put there.
    pub(crate) uarg: u64,
}

impl Clause {
    /// What an array of them is filled with.
    pub(crate) const EMPTY: Self = Self {
        test: Test::Always,
        plain: None,
        layout: Layout::EMPTY,
        predicate: None,
        acts: &[],
        cache: 0,
        uarg: 0,
    };

    /// What stands in its record, in order.
    pub(crate) fn data(&self) -> impl Iterator<Item = &RecordDesc> {
        let own = self.acts.iter().filter(|act| matches!(act.place, Place::Record));
        own.map(|act| &act.record)
    }

    /// What stands in the tuples of an aggregation of its own, in order.
    pub(crate) fn tuple(&self, of: &Aggregation) -> impl Iterator<Item = &RecordDesc> {
        let all = self.acts.iter().skip(of.first).take(of.data).map(|act| &act.record);
        // What says how often a value counts leaves nothing.
        all.filter(|desc| desc.size != 0)
    }
}

const _: () = assert!(core::mem::offset_of!(Clause, predicate) <= 64);

/// How to know whether a clause is run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Test {
    /// It has no predicate.
    Always,
    /// By the predicate, which is so simple.
    Guard(Guard),
    /// By the predicate's program.
    Program,
}

/// Units of work: to meet a clause on a chain, ...
const MEET: u16 = 16;
/// ... to ask the kernel for a number, ...
const ASK: u16 = NUMBER as u16;
/// ... to run a clause, ...
const CLAUSE: u64 = 64;
/// ... and each of its actions.
const ACT: u64 = 16;

/// How long its records are, and what a clause costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Bytes of the record, header and all; 0: none is written.
    pub(crate) size: u32,
    /// Words of the tuples of its aggregations' keys, at most.
    pub(crate) tuple: u32,
    /// Whether it begins with `speculate()`.
    pub(crate) speculates: bool,
    /// Units of work that it takes to see whether the clause is run.
    pub(crate) test: u16,
    /// Units of work that its actions take besides what their programs do.
    pub(crate) cost: u32,
}

impl Layout {
    const EMPTY: Self = Self { size: 0, tuple: 0, speculates: false, test: MEET, cost: 0 };

    /// Says what a clause with these actions takes, whose predicate is told by `test`.
    pub(crate) fn priced(mut self, test: &Test, acts: &[Act]) -> Self {
        let asked = match test {
            Test::Guard(guard) if guard.asks() => ASK,
            _ => 0,
        };
        self.test = MEET + asked;
        let acts = acts.iter().map(|act| {
            let asked = if act.simple.is_some_and(Simple::asks) { ASK.into() } else { 0 };
            match &act.place {
                Place::Value(of) => ACT + asked + 2 * of.keys as u64,
                // Its place is emptied, or it is a stack.
                _ => ACT + asked + u64::from(act.record.size) / 8,
            }
        });
        // To find a place for a record takes up to two passes over as many words.
        let cost = acts.fold(CLAUSE + 2 * self.words() as u64, u64::saturating_add);
        self.cost = u32::try_from(cost).unwrap_or(u32::MAX);
        self
    }

    /// Words that a record takes.
    pub(crate) const fn words(&self) -> usize {
        self.size.div_ceil(8) as usize
    }
}

/// An action.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) kind: Action,
    pub(crate) program: Option<Program<'static>>,
    /// What it computes, if that is simply there.
    pub(crate) simple: Option<Simple>,
    pub(crate) place: Place,
    /// Where what it leaves stands: offsets count from the header of the record, or of the tuple.
    pub(crate) record: RecordDesc,
    /// The same, if it leaves a number and does nothing else.
    pub(crate) field: Option<Field>,
}

impl Act {
    /// What an array of them is filled with.
    pub(crate) const EMPTY: Self = Self {
        kind: Action::None,
        program: None,
        simple: None,
        place: Place::Record,
        record: RecordDesc::EMPTY,
        field: None,
    };

    /// What its program gives; 0 without one.
    pub(crate) fn compute<K: Kernel>(&self, firing: &mut Firing<'_, K>) -> Result<u64, Failure> {
        self.program.as_ref().map_or(Ok(0), |program| firing.run(program))
    }

    /// Whether it leaves a string.
    pub(crate) fn is_string(&self) -> bool {
        let returns = self.program.as_ref().map(Program::returns);
        self.kind == Action::DifExpr && returns.is_some_and(|ty| ty.is_by_ref() && ty.is_string())
    }

    /// Puts it to an offset.
    fn put_at(&mut self, offset: u32) {
        self.record.offset = offset;
        let returns = self.program.as_ref().map(Program::returns);
        let is_plain = matches!(
            self.kind,
            Action::DifExpr
                | Action::Printf
                | Action::Printa
                | Action::System
                | Action::Freopen
                | Action::LibAct
                | Action::Tracemem
        );
        let is_number = is_plain
            && returns.is_some_and(|ty| !ty.is_by_ref())
            && matches!(self.record.size, 1 | 2 | 4 | 8);
        self.field = is_number.then(|| Field::new(offset, self.record.size));
    }
}

/// A number's place among words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    word: u32,
    shift: u8,
    /// Ones where its bits are, but for the shift.
    mask: u64,
}

impl Field {
    /// The second word.
    pub(crate) const SECOND: Self = Self::new(8, 8);
    /// No place.
    pub(crate) const NOWHERE: Self = Self { word: u32::MAX, shift: 0, mask: 0 };

    /// At an offset that is a multiple of its size, 1, 2, 4 or 8 bytes.
    const fn new(offset: u32, size: u32) -> Self {
        let mask = u64::MAX >> (64 - 8 * size);
        Self { word: offset / 8, shift: (offset % 8 * 8) as u8, mask }
    }

    /// Writes the number. The first one in a word makes the rest of it zero, so fields are written in order.
    #[inline(always)]
    pub(crate) fn put(self, words: &mut [u64], value: u64) {
        if let Some(word) = words.get_mut(self.word as usize) {
            let before = if self.shift == 0 { 0 } else { *word };
            *word = before | (value & self.mask) << self.shift;
        }
    }
}

/// Where what an action leaves is put.
#[derive(Debug)]
pub(crate) enum Place {
    Record,
    /// In a tuple, which it begins if it has the number of the aggregation.
    Key(Option<u32>),
    /// It is the aggregating action.
    Value(Aggregation),
}

/// An aggregation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregation {
    /// Its number, from 1.
    pub(crate) id: u32,
    /// The number of its variable, as far as it is known: the first key.
    pub(crate) variable: u32,
    pub(crate) function: Function,
    /// Words of the keys, the number of the aggregation included.
    pub(crate) keys: usize,
    /// Which action is the first key, and how many there are from there to the one that aggregates.
    pub(crate) first: usize,
    pub(crate) data: usize,
    /// Whether the action before it says how often a value counts.
    pub(crate) increments: bool,
}

impl Aggregation {
    /// Bytes of a tuple.
    pub(crate) fn size(&self) -> u32 {
        (self.keys + self.function.words()) as u32 * 8
    }
}

/// An action on its way into a clause.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) kind: Action,
    pub(crate) program: Option<Program<'static>>,
    /// How many actions before it are keys of it.
    pub(crate) keys: u32,
    pub(crate) arg: u64,
    pub(crate) uarg: u64,
    pub(crate) format: u16,
}

/// Puts the actions of a clause together (`dtrace_ecb_action_add`, `dtrace_ecb_resize`).
#[derive(Debug)]
pub(crate) struct Builder<'o> {
    options: &'o Options,
    frames: Frames,
    /// The first of the actions that are no aggregation's yet.
    open: usize,
    committed: bool,
    size: u32,
    tuple: usize,
    speculates: bool,
    /// It asks for a speculation, or ends one.
    asks: bool,
}

const HEADER: u32 = RecordHeader::SIZE as u32;

impl<'o> Builder<'o> {
    pub(crate) fn new(options: &'o Options) -> Self {
        Self {
            options,
            frames: options.frames(),
            open: 0,
            committed: false,
            size: HEADER,
            tuple: 0,
            speculates: false,
            asks: false,
        }
    }

    /// Adds an action behind those that there are in `acts`; `aggregations` is the number that was given last.
    pub(crate) fn add(
        &mut self,
        acts: &mut [Act],
        draft: Draft,
        aggregations: &mut u32,
    ) -> Result<Act, Malformed> {
        let Draft { kind, program, arg, uarg, format, .. } = draft;
        self.asks |= program.as_ref().is_some_and(Program::asks_for_speculation)
            || matches!(kind, Action::Commit | Action::Discard);
        if kind.is_destructive() && !self.options.destructive() {
            return Err(Malformed::Destructive(kind));
        }
        if kind.is_aggregation() {
            return self.aggregate(acts, draft, aggregations);
        }
        let (size, arg) = self.size(kind, program.as_ref(), arg)?;
        if size > LONGEST {
            return Err(Malformed::Long(size));
        }
        if self.committed && (size != 0 || matches!(kind, Action::Speculate | Action::Commit)) {
            return Err(Malformed::Commit);
        }
        self.committed |= kind == Action::Commit;
        if kind == Action::Speculate {
            if acts.iter().any(|act| act.record.size != 0) || self.speculates {
                return Err(Malformed::Speculate);
            }
            self.speculates = true;
        }
        let record = RecordDesc {
            action: kind.number(),
            size,
            arg,
            uarg,
            format,
            alignment: alignment(size),
            ..RecordDesc::EMPTY
        };
        let simple = program.as_ref().and_then(Program::simple);
        Ok(Act { kind, program, simple, place: Place::Record, record, field: None })
    }

    /// What an action leaves, in bytes, and its argument with what it leaves to options.
    fn size(
        &self,
        kind: Action,
        program: Option<&Program<'static>>,
        arg: u64,
    ) -> Result<(u32, u64), Malformed> {
        let lacking = Malformed::NoProgram(kind);
        let returns = program.map(Program::returns);
        let number = |bytes: u32| match returns {
            Some(ty) if ty.size == bytes && !ty.is_by_ref() => Ok(()),
            Some(_) => Err(Malformed::Type(kind)),
            None => Err(lacking),
        };
        Ok(match kind {
            Action::DifExpr
            | Action::Printf
            | Action::Printa
            | Action::System
            | Action::Freopen
            | Action::LibAct
            | Action::Tracemem
            | Action::TracememDynsize
            | Action::Printm => {
                let ty: DifType = returns.ok_or(lacking)?;
                if ty.size != 0 || ty.kind != TypeKind::String.number() {
                    (ty.size, arg)
                } else if ty.is_by_ref() {
                    (self.options.string(), arg)
                } else {
                    return Err(Malformed::Type(kind));
                }
            }
            Action::Exit => {
                number(4)?;
                (4, arg)
            }
            Action::Stack => {
                let frames = if arg == 0 { self.frames.stack.into() } else { arg };
                (bytes_of(frames)?, frames)
            }
            Action::Ustack | Action::Jstack => {
                let UstackArg { mut frames, mut string_size } = UstackArg::decode(arg);
                if kind == Action::Jstack {
                    string_size = if string_size == 0 { self.frames.names } else { string_size };
                    frames = if frames == 0 { self.frames.jstack } else { frames };
                } else if frames == 0 {
                    frames = self.frames.ustack;
                }
                let words = bytes_of(u64::from(frames) + 1)?;
                let size = words.checked_add(string_size).ok_or(Malformed::Long(string_size))?;
                let arg = UstackArg { frames, string_size }.encode();
                (size.checked_next_multiple_of(8).ok_or(Malformed::Long(size))?, arg)
            }
            Action::Sym | Action::Mod => {
                number(8)?;
                (8, arg)
            }
            Action::Usym | Action::Umod | Action::Uaddr => {
                number(8)?;
                (16, arg)
            }
            Action::Chill
            | Action::Discard
            | Action::Raise
            | Action::Commit
            | Action::Speculate => {
                returns.ok_or(lacking)?;
                (0, arg)
            }
            Action::Stop | Action::Breakpoint | Action::Panic => (0, arg),
            _ => return Err(Malformed::Action(kind.number().into())),
        })
    }

    fn aggregate(
        &mut self,
        acts: &mut [Act],
        draft: Draft,
        aggregations: &mut u32,
    ) -> Result<Act, Malformed> {
        let Draft { kind, program, keys: count, arg, uarg, format } = draft;
        if self.committed || self.speculates {
            return Err(Malformed::Speculative(kind));
        }
        let function = Function::new(kind, arg).map_err(|_| Malformed::Aggregation(kind))?;
        let count = count as usize;
        let first = acts.len().checked_sub(count).filter(|first| *first >= self.open && count > 0);
        let first = first.ok_or(Malformed::Keys)?;
        let tuple = acts.get_mut(first..).ok_or(Malformed::Keys)?;
        *aggregations = aggregations.checked_add(1).ok_or(Malformed::Keys)?;
        let id = *aggregations;
        let increments = tuple.last().is_some_and(|last| {
            last.kind == Action::DifExpr && last.program.is_some_and(|of| of.returns().size == 0)
        });
        // The number of the aggregation comes first.
        let mut end = size_of::<u32>() as u32;
        let mut begins = Some(id);
        let mut variable = 0;
        for act in tuple {
            if begins.is_some() {
                variable = match act.simple {
                    Some(Simple::Constant(value)) => value as u32,
                    _ => 0,
                };
            }
            act.place = Place::Key(begins.take());
            let offset = end.next_multiple_of(act.record.alignment.into());
            act.put_at(offset);
            end = offset.checked_add(act.record.size).ok_or(Malformed::Long(offset))?;
            if end > LONGEST {
                return Err(Malformed::Long(end));
            }
        }
        let offset = end.next_multiple_of(8);
        let keys = offset as usize / 8;
        self.tuple = self.tuple.max(keys);
        self.open = acts.len() + 1;
        let record = RecordDesc {
            action: kind.number(),
            size: function.words() as u32 * 8,
            offset,
            alignment: 8,
            arg,
            uarg,
            format,
            ..RecordDesc::EMPTY
        };
        let aggregation =
            Aggregation { id, variable, function, keys, first, data: count + 1, increments };
        let simple = program.as_ref().map_or(Some(Simple::Constant(0)), Program::simple);
        Ok(Act { kind, program, simple, place: Place::Value(aggregation), record, field: None })
    }

    /// All actions are there: gives each its place in the record.
    pub(crate) fn finish(mut self, acts: &mut [Act]) -> Result<Layout, Malformed> {
        for act in acts.iter_mut().filter(|act| matches!(act.place, Place::Record)) {
            let offset = self.size.next_multiple_of(act.record.alignment.into());
            act.put_at(offset);
            self.size = offset.checked_add(act.record.size).ok_or(Malformed::Long(offset))?;
            if self.size > LONGEST {
                return Err(Malformed::Long(self.size));
            }
        }
        let speculates_only = self.speculates && acts.len() == 1;
        let size = match self.size {
            // All that there is stores nothing.
            HEADER if !acts.is_empty() && !speculates_only => 0,
            size => size.next_multiple_of(4),
        };
        let speculates = self.speculates || self.asks;
        Ok(Layout { size, tuple: self.tuple as u32, speculates, ..Layout::EMPTY })
    }
}

fn bytes_of(words: u64) -> Result<u32, Malformed> {
    u32::try_from(words.saturating_mul(8)).map_err(|_| Malformed::Long(u32::MAX))
}

/// What an offset of so many bytes is a multiple of.
fn alignment(size: u32) -> u16 {
    match size.trailing_zeros() {
        _ if size == 0 => 1,
        log @ 0..=2 => 1 << log,
        _ => 8,
    }
}
