//! What a source has become: enablings, as a kernel takes them.

use dtrace_abi::action::Action;
use dtrace_abi::dif::{DifType, Instr, Variable};
use dtrace_abi::stability::Attribute;

use crate::surroundings::Description;

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// One for each probe description of each clause, in order.
    pub ecbs: Vec<Ecb>,
    /// What `-S` lists, if it was asked for: DIFOs as they were made, before actions change what they
    /// return.
    pub listed: Vec<Difo>,
}

/// What is done when probes fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ecb {
    /// Which probes.
    pub probe: Description,
    /// Under which condition.
    pub predicate: Option<Difo>,
    /// What, in order.
    pub actions: Vec<Act>,
    /// The statements that these are of; one without any is the default action.
    pub statements: Vec<Statement>,
}

/// A statement of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// How many actions it is.
    pub actions: usize,
    /// The format of `printf` and the like, with what the types say of its conversions: `%lli` or `%u`
    /// for `%d` (`dtrace_printf_format`, dt_printf.c). The type of `print`.
    pub text: Option<Vec<u8>>,
    /// How stable the probe's description is.
    pub probe_attr: Attribute,
    /// How stable what the clause says is.
    pub attr: Attribute,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Which.
    pub kind: Action,
    /// Its program.
    pub difo: Option<Difo>,
    /// Of an aggregation: how many actions before it are its keys, its variable included.
    pub keys: u32,
    /// Its argument.
    pub arg: u64,
}

/// A program in DIF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difo {
    /// Instructions.
    pub code: Vec<Instr>,
    /// Integers.
    pub integers: Vec<u64>,
    /// Strings, each with the zero that ends it.
    pub strings: Vec<u8>,
    /// Variables.
    pub variables: Vec<Variable>,
    /// What it returns.
    pub returns: DifType,
    /// Whether it calls what needs `-w`.
    pub destructive: bool,
}

impl Difo {
    /// The number that it returns, if it does nothing else: that of the aggregation that `clear` or `printa` names, and of
    /// the variable of an aggregating statement.
    pub fn constant(&self) -> Option<u64> {
        let [value] = self.integers[..] else { return None };
        (self.code == [Instr::setx(0, 1), Instr::ret(1)]).then_some(value)
    }

    /// The string at an offset of the table, without its end.
    pub fn string(&self, offset: u32) -> Option<&[u8]> {
        let rest = self.strings.get(usize::try_from(offset).ok()?..)?;
        rest.split(|&byte| byte == 0).next()
    }
}
