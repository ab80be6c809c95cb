//! Data that formats are applied to.

use dtrace_abi::action::Action;

/// An argument of a format: a value of `printf` or a key of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The action that recorded the value.
    pub action: Action,
    /// The action's argument.
    pub argument: u64,
    /// If the value is an argument of the probe that has a name: the name that programs write after `args.`.
    pub name: Option<&'a str>,
    /// If the value is a variable of the kernel, such as `tid`: its name.
    pub variable: Option<&'static str>,
    /// The bytes of the value.
    pub data: &'a [u8],
}

impl<'a> Argument<'a> {
    /// Creates a value without a name, as an expression records it.
    pub const fn value(data: &'a [u8]) -> Self {
        Self { action: Action::DifExpr, argument: 0, name: None, variable: None, data }
    }
}
