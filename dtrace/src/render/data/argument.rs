//! Data that formats are applied to.

use dtrace_abi::action::Action;

/// A datum that a format is given: a value of `printf`, a key of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The action that left it.
    pub action: Action,
    /// The action's argument.
    pub argument: u64,
    /// The name of the probe's argument that it is, as a program writes it behind `args.`, if the compiler tells.
    pub name: Option<&'a str>,
    /// Its bytes.
    pub data: &'a [u8],
}

impl<'a> Argument<'a> {
    /// Creates a value without a name, as an expression records it.
    pub const fn value(data: &'a [u8]) -> Self {
        Self { action: Action::DifExpr, argument: 0, name: None, data }
    }
}
