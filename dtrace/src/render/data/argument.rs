//! Data that formats are applied to.

use dtrace_abi::action::Action;

/// A datum that a format is given: a value of `printf`, a key of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The action that left it.
    pub action: Action,
    /// The action's argument.
    pub argument: u64,
    /// Its bytes.
    pub data: &'a [u8],
}
