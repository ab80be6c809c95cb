//! Programs.

use super::{Declarator, Expr, Param, Specs, TypeName};
use crate::place::Place;

/// A source: its items in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The items.
    pub items: Vec<Item>,
    /// The place of the end of the source.
    pub end: Place,
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The place in the source.
    pub place: Place,
    /// The kind of item, with its parts.
    pub kind: ItemKind,
}

/// The kinds of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A clause.
    Clause(Clause),
    /// A declaration.
    Decl(Specs, Vec<Declarator>),
    /// `inline type name = value;`
    Inline(Specs, Declarator, Expr),
    /// `translator output <input name> { ... };`
    Translator {
        /// The output type.
        output: TypeName,
        /// The input type.
        input: TypeName,
        /// The name of the input.
        param: String,
        /// The members.
        members: Vec<XlateMember>,
    },
    /// `provider name { ... };`
    Provider {
        /// Its name.
        name: String,
        /// Its probes.
        probes: Vec<Probe>,
    },
    /// A line that begins with `#`, as its words.
    Control(Vec<ControlWord>),
}

/// A clause: probes, a condition, and statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The probe descriptions.
    pub probes: Vec<ProbeSpec>,
    /// The condition under which the actions run.
    pub predicate: Option<Expr>,
    /// The statements; `None` if the clause has no braces.
    pub body: Option<Vec<Stmt>>,
}

/// A probe description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeSpec {
    /// The probes that a description matches.
    Description(String, Place),
    /// The probe with a number.
    Id(u64, Place),
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stmt {
    /// The place in the source.
    pub place: Place,
    /// The kind of statement, with its parts.
    pub kind: StmtKind,
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StmtKind {
    /// An expression.
    Expr(Expr),
    /// `if (condition) { ... } else { ... }`
    If(Expr, Vec<Stmt>, Option<Vec<Stmt>>),
}

/// The definition of a member by a translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XlateMember {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Expr,
    /// The place in the source.
    pub place: Place,
}

/// A probe that a provider declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// The arguments.
    pub input: Vec<Param>,
    /// The translated arguments, if they differ.
    pub output: Option<Vec<Param>>,
    /// The place in the source.
    pub place: Place,
}

/// A word of a control line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlWord {
    /// Anything without blanks.
    Word(String),
    /// A string, its escapes resolved.
    Str(Vec<u8>),
    /// An integer.
    Int(u64),
}
