//! Programs.

use super::{Declarator, Expr, Param, Place, Specs, TypeName};

/// A source: its items in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The items.
    pub items: Vec<Item>,
    /// The line in which the source ends.
    pub end: Place,
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub kind: ItemKind,
}

/// What an item is.
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
        /// What it makes.
        output: TypeName,
        /// Of what.
        input: TypeName,
        /// What that is called.
        param: String,
        /// How.
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

/// Probes, a condition, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Which probes.
    pub probes: Vec<ProbeSpec>,
    /// The condition.
    pub predicate: Option<Expr>,
    /// What to do; `None` if there are not even braces.
    pub body: Option<Vec<Stmt>>,
}

/// Which probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeSpec {
    /// Those that a description matches.
    Description(String, Place),
    /// The one with a number.
    Id(u64, Place),
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stmt {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub kind: StmtKind,
}

/// What a statement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StmtKind {
    /// An expression.
    Expr(Expr),
    /// `if (condition) { ... } else { ... }`
    If(Expr, Vec<Stmt>, Option<Vec<Stmt>>),
}

/// How a translator makes one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XlateMember {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Expr,
    /// Where it stands.
    pub place: Place,
}

/// A probe that a provider declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// What is passed to it.
    pub input: Vec<Param>,
    /// What a consumer sees, if that is something else.
    pub output: Option<Vec<Param>>,
    /// Where it stands.
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
