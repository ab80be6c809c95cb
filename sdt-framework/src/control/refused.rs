//! Errors of programs.

use core::fmt;

use dtrace_abi::action::Action;
use dtrace_abi::dof::DofError;
use dtrace_abi::spec::SpecError;

use crate::machine::Invalid;

/// The reason why a program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramError {
    /// The DOF is invalid or incomplete.
    Dof(DofError),
    /// The probe description of a clause, counted from 0, is invalid.
    Spec(usize, SpecError),
    /// The code of a predicate is invalid: the clause, counted from 0.
    Predicate(usize, Invalid),
    /// The code of an action is invalid: the clause and the action, counted from 0.
    Action(usize, usize, Invalid),
    /// An action is invalid: the clause and the action, counted from 0.
    Malformed(usize, usize, Malformed),
    /// The pieces have gaps, or are longer than the announced size.
    Pieces,
    /// The program is longer than the limit (`dtrace_dof_maxsize`).
    Long(u64),
    /// The program uses its sections so often that it would exceed the limit without sharing them.
    Repeats,
    /// The framework was built without the feature `dif`, and the clause, counted from 0, needs an interpreter.
    NoInterpreter(usize),
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
            Self::Pieces => f.write_str(
                "a piece of the program is missing; send the program again from the \
                 beginning",
            ),
            Self::Long(bytes) => {
                write!(f, "the program has {bytes} bytes, more than the limit; split it")
            }
            Self::Repeats => f.write_str(
                "the clauses of the program refer to too many sections; \
                 split the program",
            ),
            Self::NoInterpreter(clause) => write!(
                f,
                "clause {clause} needs the DIF interpreter, which this kernel does not have; use only \
                 arguments, constants, pid and tid, compare one of them in a predicate, and aggregate by them, or build \
                 the kernel with the feature `dif` of sdt-framework"
            ),
        }
    }
}

impl core::error::Error for ProgramError {}

impl From<DofError> for ProgramError {
    fn from(error: DofError) -> Self {
        Self::Dof(error)
    }
}

/// The reason why an action is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// No action has this number.
    Action(u32),
    /// The action has no program.
    NoProgram(Action),
    /// The result of the program has the wrong type.
    Type(Action),
    /// The datum ends at this byte of the record, beyond the limit.
    Long(u32),
    /// The arguments of the aggregating function are invalid.
    Aggregation(Action),
    /// The aggregation has more keys than actions before it.
    Keys,
    /// An action after `commit` records data.
    Commit,
    /// An action before `speculate` records data, or there are two `speculate`.
    Speculate,
    /// The action needs the option `destructive`.
    Destructive(Action),
    /// The format of the action is empty.
    EmptyFormat(Action),
    /// There are too many formats.
    Formats,
    /// An action after `speculate` or `commit` aggregates.
    Speculative(Action),
    /// The clause has too many actions.
    TooMany(usize),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(number) => write!(f, "action {number:#x} is unknown"),
            Self::NoProgram(action) => write!(f, "{}() has no expression", action.name()),
            Self::Type(action) => {
                write!(f, "the argument of {}() has the wrong type", action.name())
            }
            Self::Long(bytes) => write!(
                f,
                "a datum ends at byte {bytes} of its record, beyond the \
                 limit; record less in this clause"
            ),
            Self::Aggregation(action) => write!(f, "{}() has invalid arguments", action.name()),
            Self::Keys => f.write_str("the aggregation has fewer keys than it declares"),
            Self::Commit => f.write_str("an action records data after commit()"),
            Self::Speculate => f.write_str("an action records data before speculate()"),
            Self::Destructive(action) => {
                write!(f, "{}() is destructive and needs -w", action.name())
            }
            Self::EmptyFormat(action) => write!(f, "the format of {}() is empty", action.name()),
            Self::Speculative(action) => {
                write!(f, "{}() aggregates after speculate() or commit()", action.name())
            }
            Self::Formats => f.write_str(
                "the programs have more formats than the limit; use fewer \
                 calls of printf()",
            ),
            Self::TooMany(count) => {
                write!(f, "the clause has {count} actions, more than the limit; split the clause")
            }
        }
    }
}
