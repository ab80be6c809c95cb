//! Compiled programs: enablings in the form that a kernel accepts.

use dtrace_abi::action::Action;
use dtrace_abi::dif::{DifType, Instr, Variable};
use dtrace_abi::stability::Attribute;

use crate::place::Place;
use crate::surroundings::Description;

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The enabling control blocks: one for each probe description of each clause, in order.
    pub ecbs: Vec<Ecb>,
    /// The DIFOs that `-S` lists, if requested, before actions change their return types.
    pub listed: Vec<Difo>,
    /// The source. The [places](Difo::places) of the instructions refer to it.
    pub source: Vec<u8>,
}

/// An enabling control block: the predicate and actions for probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ecb {
    /// The description of the probes.
    pub probe: Description,
    /// The predicate.
    pub predicate: Option<Difo>,
    /// The actions, in order.
    pub actions: Vec<Act>,
    /// The statements of the actions; a statement without actions is the default action.
    pub statements: Vec<Statement>,
}

/// A statement of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The number of its actions.
    pub actions: usize,
    /// The format of functions like `printf`, with conversions by the types of the arguments, such as `%lli` or `%u` for `%d`
    /// (`dtrace_printf_format`, dt_printf.c); or the name of the type of `print`.
    pub text: Option<Vec<u8>>,
    /// The stability of the probe description.
    pub probe_attr: Attribute,
    /// The stability of the clause.
    pub attr: Attribute,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The kind of action.
    pub kind: Action,
    /// Its program.
    pub difo: Option<Difo>,
    /// The number of actions before an aggregation that are its variable and keys.
    pub keys: u32,
    /// Its argument.
    pub arg: u64,
    /// The name of the probe's argument that it records, as a program writes it after `args.`, if it records one.
    pub name: Option<String>,
}

/// A program in DIF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difo {
    /// The instructions.
    pub code: Vec<Instr>,
    /// For each instruction, the place of its expression in the source of the program. Code of an inline or a
    /// translator has the place of its use.
    pub places: Vec<Place>,
    /// Integers.
    pub integers: Vec<u64>,
    /// The string table; each string ends with a zero.
    pub strings: Vec<u8>,
    /// Variables.
    pub variables: Vec<Variable>,
    /// The type of the result.
    pub returns: DifType,
    /// Whether it calls a destructive subroutine (`-w`).
    pub destructive: bool,
}

impl Difo {
    /// Returns the constant, if the program only returns a constant: the number of an aggregation for `clear` or `printa`, or of
    /// the variable of an aggregating statement.
    pub fn constant(&self) -> Option<u64> {
        let [value] = self.integers[..] else { return None };
        (self.code == [Instr::setx(0, 1), Instr::ret(1)]).then_some(value)
    }

    /// Returns the string at an offset of the table, without its terminating zero.
    pub fn string(&self, offset: u32) -> Option<&[u8]> {
        let rest = self.strings.get(usize::try_from(offset).ok()?..)?;
        rest.split(|&byte| byte == 0).next()
    }
}
