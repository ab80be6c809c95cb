//! What is found in a module: where, and how bad it is. What it is, is said in [`problem`](super::problem).

use std::fmt;

pub use super::problem::Problem;

use super::functions::Functions;
pub(super) use super::problem::Signed;
use crate::link::Seal;

/// One breach of one rule, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What is wrong there, and what to do.
    pub problem: Problem,
}

impl Finding {
    /// Whether the module must not be loaded.
    pub fn is_error(&self) -> bool {
        self.level() == Level::Error
    }

    /// How bad it is.
    pub fn level(&self) -> Level {
        self.problem.level()
    }
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Unknown here, and no sign of a defect: a kernel's own file answers it.
    Note,
    /// Worth a look: it may be meant so, or depends on a kernel that has not been asked.
    Warning,
    /// The kernel would refuse the module, or break.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A place in a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A section as a whole.
    Section(String),
    /// An offset in a section.
    Offset(String, u64),
    /// A symbol.
    Symbol(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Section(section) => write!(f, "{section}: "),
            Self::Offset(section, offset) => write!(f, "{section}+{offset:#x}: "),
            Self::Symbol(symbol) => write!(f, "symbol {symbol}: "),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.problem)
    }
}

/// Findings as they are made.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    /// Starts the findings of a file. A file whose seal is broken has that finding only.
    pub(crate) fn of(file: &[u8]) -> Result<Self, Vec<Finding>> {
        let broken = Finding { place: Place::File, problem: Problem::BrokenSeal };
        if Seal::of(file) == Seal::Broken { Err(vec![broken]) } else { Ok(Self::default()) }
    }

    /// What was found: the warnings, or everything if there are errors.
    pub(crate) fn done(self) -> Result<Vec<Finding>, Vec<Finding>> {
        if self.has_errors() { Err(self.0) } else { Ok(self.0) }
    }

    /// Whether an error was found.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(Finding::is_error)
    }

    /// Reports functions that overlap.
    pub(super) fn overlaps(&mut self, functions: &Functions<'_>) {
        for (other, function, nested) in functions.overlaps() {
            let other = other.to_owned();
            self.symbol(function, Problem::FunctionsOverlap { other, nested });
        }
    }

    pub(crate) fn file(&mut self, problem: impl Into<Problem>) {
        self.0.push(Finding { place: Place::File, problem: problem.into() });
    }

    pub(crate) fn section(&mut self, section: &str, problem: impl Into<Problem>) {
        self.0.push(Finding { place: Place::Section(section.into()), problem: problem.into() });
    }

    pub(crate) fn offset(&mut self, section: &str, offset: u64, problem: impl Into<Problem>) {
        self.0.push(Finding {
            place: Place::Offset(section.into(), offset),
            problem: problem.into(),
        });
    }

    pub(crate) fn symbol(&mut self, symbol: &str, problem: impl Into<Problem>) {
        self.0.push(Finding { place: Place::Symbol(symbol.into()), problem: problem.into() });
    }
}
