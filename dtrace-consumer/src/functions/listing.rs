//! Prints functions and how many of them can be traced.

use std::fmt::{self, Write as _};

use super::function::{Functions, Obstacle, Site};

/// The numbers of functions of a file that can be traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// All functions.
    pub functions: usize,
    /// Functions whose entry can be traced.
    pub entries: usize,
    /// Functions that return.
    pub returning: usize,
    /// Functions whose returns can all be traced.
    pub returns: usize,
    /// Functions whose entry has a [window](super::Site::window) for a jump.
    pub jumping_entries: usize,
    /// Functions whose returns all have one.
    pub jumping_returns: usize,
}

impl Coverage {
    /// Counts the functions of a file.
    pub fn of(functions: &Functions) -> Self {
        let count = |f: &dyn Fn(&super::Function) -> bool| {
            functions.all.iter().filter(|function| f(function)).count()
        };
        Self {
            functions: functions.all.len(),
            entries: count(&|of| of.entry.is_ok()),
            returning: count(&|of| of.returns != Err(Obstacle::NeverReturns)),
            returns: count(&|of| of.returns.is_ok()),
            jumping_entries: count(&|of| of.entry.as_ref().is_ok_and(Site::has_window)),
            jumping_returns: count(&|of| {
                of.returns.as_ref().is_ok_and(|all| all.iter().all(Site::has_window))
            }),
        }
    }
}

/// Writes `part` and the percentage of `whole` that it is, rounded down.
fn share(part: usize, whole: usize) -> impl fmt::Display {
    let percent = (1000 * part).checked_div(whole).unwrap_or(0);
    fmt::from_fn(move |f| write!(f, "{part} of {whole} ({}.{} %)", percent / 10, percent % 10))
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { functions, entries, returning, returns, jumping_entries, jumping_returns } =
            *self;
        writeln!(f, "entry:  {} functions", share(entries, functions))?;
        writeln!(f, "return: {} functions that return", share(returns, returning))?;
        if jumping_entries + jumping_returns == 0 {
            return Ok(());
        }
        writeln!(f, "by a jump, in a process:")?;
        writeln!(f, "entry:  {} functions", share(jumping_entries, functions))?;
        writeln!(f, "return: {} functions that return", share(jumping_returns, returning))
    }
}

/// Returns the listing of a file: each function that cannot be traced, with the reason, and the coverage. With `all`, also the
/// functions that can be traced.
pub fn listing(functions: &Functions, all: bool) -> String {
    let mut text = format!("{:18} {:7} {:20} FUNCTION\n", "ADDRESS", "NAME", "MODULE");
    for of in &functions.all {
        let returns = of.returns.as_ref().map(|_| ());
        for (which, obstacle) in [("entry", of.entry.as_ref().map(|_| ())), ("return", returns)] {
            let name = &of.name;
            let row =
                format!("{:#018x} {which:7} {:20} {}", of.address, name.module, name.function);
            // Writing to a string cannot fail.
            let _ = match obstacle {
                Ok(()) if all => writeln!(text, "{row}"),
                Err(Obstacle::NeverReturns) | Ok(()) => Ok(()),
                Err(obstacle) => writeln!(text, "{row}: {obstacle}"),
            };
        }
    }
    let _ = write!(text, "{}", Coverage::of(functions));
    text
}
