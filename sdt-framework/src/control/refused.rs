//! Why a program is not taken.

use core::fmt;

use dtrace_abi::action::Action;
use dtrace_abi::dof::DofError;
use dtrace_abi::spec::SpecError;

use crate::machine::Invalid;

/// Why a program is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is no DOF, or what is in it is not whole.
    Dof(DofError),
    /// A clause, from 0, names no probes that there can be.
    Spec(usize, SpecError),
    /// A predicate's code may do harm, or would not end: the clause, from 0.
    Predicate(usize, Invalid),
    /// An action's: the clause and the action, from 0.
    Action(usize, usize, Invalid),
    /// An action that is not possible: the clause and the action, from 0.
    Malformed(usize, usize, Malformed),
    /// Its pieces have gaps, or are longer than was said.
    Pieces,
    /// It is longer than any kernel takes.
    Long(u64),
    /// It uses its sections so often that it would be, if each were there as often.
    Repeats,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dof(error) => write!(f, "{error}"),
            Self::Spec(clause, error) => write!(f, "clause {clause}: {error}"),
            Self::Predicate(clause, invalid) => {
                write!(f, "clause {clause}, predicate: {invalid}")
            }
            Self::Action(clause, action, invalid) => {
                write!(f, "clause {clause}, action {action}: {invalid}")
            }
            Self::Malformed(clause, action, problem) => {
                write!(f, "clause {clause}, action {action}: {problem}")
            }
            Self::Pieces => f.write_str("the program's pieces do not follow each other"),
            Self::Long(bytes) => write!(f, "the program has {bytes} bytes, which are too many"),
            Self::Repeats => f.write_str("the program uses its sections too often"),
        }
    }
}

impl core::error::Error for ProgramError {}

impl From<DofError> for ProgramError {
    fn from(error: DofError) -> Self {
        Self::Dof(error)
    }
}

/// What is wrong with an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// No action has this number.
    Action(u32),
    /// It needs a program.
    NoProgram(Action),
    /// Its program gives something else than it takes.
    Type(Action),
    /// What it records is too long: so many bytes.
    Long(u32),
    /// Its arguments make no aggregation.
    Aggregation(Action),
    /// There are not so many actions before it that can be its keys.
    Keys,
    /// Behind `commit` nothing is recorded.
    Commit,
    /// Before `speculate` nothing is recorded, and it is once in a clause.
    Speculate,
    /// It needs the option `destructive`.
    Destructive(Action),
    /// Its format is empty.
    EmptyFormat(Action),
    /// There are more formats than can be numbered.
    Formats,
    /// It aggregates behind `speculate` or `commit`.
    Speculative(Action),
    /// There are more actions than a clause has.
    TooMany(usize),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(number) => write!(f, "no action has the number {number:#x}"),
            Self::NoProgram(action) => write!(f, "{}() has no expression", action.name()),
            Self::Type(action) => write!(f, "{}() of another type", action.name()),
            Self::Long(bytes) => write!(f, "a datum ends at byte {bytes} of its record"),
            Self::Aggregation(action) => write!(f, "{}() with such arguments", action.name()),
            Self::Keys => f.write_str("an aggregation lacks keys"),
            Self::Commit => f.write_str("something is recorded behind commit()"),
            Self::Speculate => f.write_str("something is recorded before speculate()"),
            Self::Destructive(action) => {
                write!(f, "{}() is destructive, and that was not allowed", action.name())
            }
            Self::EmptyFormat(action) => write!(f, "the format of {}() is empty", action.name()),
            Self::Speculative(action) => {
                write!(f, "{}() aggregates behind speculate() or commit()", action.name())
            }
            Self::Formats => f.write_str("there are too many formats"),
            Self::TooMany(count) => write!(f, "{count} actions are too many"),
        }
    }
}
