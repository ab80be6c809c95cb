//! The clauses that run when probes fire: a predicate, and actions with their offsets in the record.

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;

use super::field::Field;
use super::step::Step;
use crate::kernel::Kernel;
use crate::machine::aggregation::Function;
use crate::machine::{ArgumentText, Failure, Firing, Guard, NUMBER, Program, Simple};

/// A clause. Immutable once it is enabled. The fields that every hit uses are first, on one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Clause {
    pub(crate) test: Test,
    /// Its steps, if all actions are [plain](super::plain).
    pub(crate) plain: Option<&'static [Step]>,
    pub(crate) layout: Layout,
    pub(crate) predicate: Option<Program<'static>>,
    pub(crate) actions: &'static [ClauseAction],
    /// The number of the predicate in predicate caches, or 0.
    pub(crate) cache: u32,
    /// The consumer's argument for the clause, returned with the description of its records (`dtepd_uarg`).
    pub(crate) uarg: u64,
}

impl Clause {
    /// The initial element of arrays.
    pub(crate) const EMPTY: Self = Self {
        test: Test::Always,
        plain: None,
        layout: Layout::EMPTY,
        predicate: None,
        actions: &[],
        cache: 0,
        uarg: 0,
    };

    /// Returns the data of its record, in order.
    pub(crate) fn data(&self) -> impl Iterator<Item = &RecordDesc> {
        let own = self.actions.iter().filter(|act| matches!(act.target, Target::Record));
        own.map(|act| &act.record)
    }

    /// Returns the data in the tuples of one of its aggregations, in order.
    pub(crate) fn tuple(&self, of: &Aggregation) -> impl Iterator<Item = &RecordDesc> {
        let all = self.actions.iter().skip(of.first).take(of.data).map(|act| &act.record);
        // The action with the increment of a value records nothing.
        all.filter(|desc| desc.size != 0)
    }
}

const _: () = assert!(core::mem::offset_of!(Clause, predicate) <= 64);

/// The condition under which a clause runs. The tag is a number of its own, so that a hit does not compute it from a field.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Test {
    /// There is no predicate.
    Always,
    /// A simple predicate.
    Guard(Guard),
    /// A predicate that is a program.
    Program,
}

/// Units of work to visit a clause on a chain.
const MEET: u16 = 16;
/// Units of work to read a number from the kernel.
const ASK: u16 = NUMBER as u16;
/// Units of work to run a clause.
const CLAUSE: u64 = 64;
/// Units of work to run an action.
const ACT: u64 = 16;

/// The sizes of its records and tuples, and the cost of the clause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The words that a record takes, including its header; 0 if the clause writes no record.
    words: u32,
    /// The units of work of its actions, without the programs of the actions.
    pub(crate) cost: u32,
    /// The units of work to find out whether the clause runs.
    pub(crate) test: u16,
    /// Whether the record has only the first half of its last word.
    is_half: bool,
    /// Whether the clause uses speculations: `speculation()`, `speculate()`, `commit()` or `discard()`.
    pub(crate) speculates: bool,
    /// The largest number of words that the keys of its aggregations take.
    pub(crate) tuple: u32,
}

impl Layout {
    pub(crate) const EMPTY: Self = Self::new(0, 0, false);

    /// Returns the layout of records of this number of bytes, a multiple of 4, without the costs.
    pub(crate) const fn new(size: u32, tuple: u32, speculates: bool) -> Self {
        let (words, is_half) = (size.div_ceil(8), !size.is_multiple_of(8));
        Self { words, cost: 0, test: MEET, is_half, speculates, tuple }
    }

    /// Computes the costs of a clause with this test and these actions.
    pub(crate) fn priced(mut self, test: &Test, acts: &[ClauseAction]) -> Self {
        let asked = match test {
            Test::Guard(guard) if guard.asks() => ASK,
            _ => 0,
        };
        self.test = MEET + asked;
        let acts = acts.iter().map(|act| {
            let asked = if act.simple.is_some_and(Simple::asks) { ASK.into() } else { 0 };
            match &act.target {
                Target::Value(of) => ACT + asked + 2 * of.keys as u64,
                // The record field is zeroed first, or the action writes a stack.
                _ => ACT + asked + u64::from(act.record.size) / 8,
            }
        });
        // Reserving a record takes up to two passes over this number of words.
        let cost = acts.fold(CLAUSE + 2 * self.words() as u64, u64::saturating_add);
        self.cost = u32::try_from(cost).unwrap_or(u32::MAX);
        self
    }

    /// Returns the words that a record takes, including its header; 0 if the clause writes no record.
    pub(crate) const fn words(&self) -> usize {
        self.words as usize
    }

    /// Returns the bytes that a record takes, including its header; 0 if the clause writes no record.
    pub(crate) const fn size(&self) -> u32 {
        self.words * 8 - if self.is_half { 4 } else { 0 }
    }
}

/// An action.
#[derive(Debug)]
pub(crate) struct ClauseAction {
    pub(crate) kind: Action,
    pub(crate) program: Option<Program<'static>>,
    /// The value of its program, if the machine is not needed to compute it.
    pub(crate) simple: Option<Simple>,
    pub(crate) target: Target,
    /// The position of its datum; offsets count from the header of the record, or of the tuple.
    pub(crate) record: RecordDesc,
    /// The position of its datum as a number, if the action only computes a number.
    pub(crate) field: Option<Field>,
}

impl ClauseAction {
    /// The initial element of arrays.
    pub(crate) const EMPTY: Self = Self {
        kind: Action::None,
        program: None,
        simple: None,
        target: Target::Record,
        record: RecordDesc::EMPTY,
        field: None,
    };

    /// Returns the result of its program; 0 without a program.
    pub(crate) fn compute<K: Kernel>(&self, firing: &mut Firing<'_, K>) -> Result<u64, Failure> {
        self.program.as_ref().map_or(Ok(0), |program| firing.run(program))
    }

    /// Returns whether the action records a string.
    pub(crate) fn is_string(&self) -> bool {
        let returns = self.program.as_ref().map(Program::returns);
        self.kind == Action::DifExpr && returns.is_some_and(|ty| ty.is_by_ref() && ty.is_string())
    }

    /// Returns whether the action only stores the result of its program. `tracemem` of a string depends on the previous action.
    const fn only_stores(&self) -> bool {
        matches!(
            self.kind,
            Action::DifExpr
                | Action::Printf
                | Action::Printa
                | Action::System
                | Action::Freopen
                | Action::LibAct
        )
    }

    /// Returns the string that it stores, if the machine is usually not needed to read it.
    pub(crate) fn text(&self) -> Option<ArgumentText> {
        // Then whole words can be copied.
        let is_aligned = self.record.offset.is_multiple_of(8);
        let program = self.program.as_ref().filter(|_| self.only_stores() && is_aligned)?;
        program.argument_text()
    }

    /// Sets the offset of the datum in the record or tuple.
    pub(crate) fn put_at(&mut self, offset: u32) {
        self.record.offset = offset;
        let returns = self.program.as_ref().map(Program::returns);
        let is_number = (self.only_stores() || self.kind == Action::Tracemem)
            && returns.is_some_and(|ty| !ty.is_by_ref());
        self.field = match self.record.size {
            // An expression that only has an effect, such as an assignment.
            0 if is_number => Some(Field::NOWHERE),
            size @ (1 | 2 | 4 | 8) if is_number => Some(Field::new(offset, size)),
            _ => None,
        };
    }
}

/// The destination of an action's datum.
#[derive(Debug)]
pub(crate) enum Target {
    Record,
    /// A key in a tuple. `Some` with the number of the aggregation if this action begins the tuple.
    Key(Option<u32>),
    /// The value of an aggregation.
    Value(Aggregation),
}

/// An aggregation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregation {
    /// Its number, from 1.
    pub(crate) id: u32,
    /// The number of its variable, which is the first key; 0 if that key is not a constant.
    pub(crate) variable: u32,
    pub(crate) function: Function,
    /// The number of words of the keys, including the number of the aggregation.
    pub(crate) keys: usize,
    /// The index of the first key, and the number of actions from there to the aggregating one.
    pub(crate) first: usize,
    pub(crate) data: usize,
    /// Whether the previous action computes how often a value counts.
    pub(crate) increments: bool,
}

impl Aggregation {
    /// Bytes of a tuple.
    pub(crate) fn size(&self) -> u32 {
        (self.keys + self.function.words()) as u32 * 8
    }
}
