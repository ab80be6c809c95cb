//! Names: what they stand for.

use std::collections::HashMap;

use dtrace_abi::dif::Subr;
use dtrace_abi::stability::Attribute;

use super::Node;
use crate::surroundings::Symbol;
use crate::types::TypeId;
use crate::version::Version;

/// A name, by its place in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct IdentId(pub u32);

/// Which kind of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdKind {
    Array,
    Scalar,
    Pointer,
    Func,
    Agg,
    AggFunc,
    ActFunc,
    XlatorData,
    XlatorPointer,
    Symbol,
    Enum,
}

impl IdKind {
    /// As errors call it (`dt_idkind_name`, dt_ident.c).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Array => "associative array",
            Self::Scalar => "scalar",
            Self::Pointer => "pointer",
            Self::Func => "function",
            Self::Agg => "aggregation",
            Self::AggFunc => "aggregating function",
            Self::ActFunc => "tracing function",
            Self::XlatorData => "translated data",
            Self::XlatorPointer => "pointer to translated data",
            Self::Symbol => "external symbol reference",
            Self::Enum => "enumerator",
        }
    }
}

/// What has been said of a name, or done with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub referred: bool,
    pub modified: bool,
    pub declared: bool,
    pub local: bool,
    pub thread: bool,
    pub writable: bool,
    pub inline: bool,
    pub user: bool,
}

/// How the type of what a name stands for is found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cooking {
    /// It has been declared, assigned, or is not known yet.
    Known,
    /// By this name.
    Named(String),
    /// A function with this prototype.
    Prototype(String),
    /// An associative array or an aggregation.
    Keys,
    /// `args`.
    Args,
    /// `uregs`.
    Regs,
    /// An inline.
    Inline,
}

/// A type of a key or a parameter, with what else must be equal.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub ty: TypeId,
    pub node: Box<Node>,
}

/// What a name is called with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    /// From here on there may be anything.
    pub variable_from: Option<usize>,
    /// From here on there may be nothing.
    pub optional_from: Option<usize>,
    /// Each parameter; `None` takes anything.
    pub params: Vec<Option<Param>>,
    /// The argument of the aggregating function, once it has been used.
    pub argument: u64,
}

/// An inline's value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inline {
    pub root: Option<Box<Node>>,
    pub params: Vec<Option<IdentId>>,
    pub scope: HashMap<String, IdentId>,
}

/// Which function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Subr(Subr),
    Agg(dtrace_abi::action::Action),
    Act(super::builtin::Act),
}

/// A name.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub name: String,
    pub kind: IdKind,
    pub flags: Flags,
    /// Number of the variable.
    pub id: u32,
    pub function: Option<Function>,
    pub attr: Attribute,
    pub cooking: Cooking,
    pub ty: Option<TypeId>,
    pub signature: Option<Signature>,
    pub inline: Option<Inline>,
    /// Of an aggregation: its function.
    pub agg_function: Option<IdentId>,
    pub symbol: Option<Symbol>,
    /// Since which version of D it is there, if not always.
    pub since: Option<Version>,
    /// Of which program it is; 0 of none.
    pub generation: u64,
    pub line: u32,
}

impl Ident {
    pub fn new(name: &str, kind: IdKind, cooking: Cooking, generation: u64) -> Self {
        Self {
            name: name.into(),
            kind,
            flags: Flags::default(),
            id: 0,
            function: None,
            attr: Attribute::DEFAULT,
            cooking,
            ty: None,
            signature: None,
            inline: None,
            agg_function: None,
            symbol: None,
            since: None,
            generation,
            line: 0,
        }
    }

    /// What stands before its name.
    pub const fn prefix(&self) -> &'static str {
        if self.flags.local {
            "this->"
        } else if self.flags.thread {
            "self->"
        } else {
            ""
        }
    }
}

/// Names of one kind, and the numbers that are left for more.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub what: &'static str,
    pub names: HashMap<String, IdentId>,
    next: u32,
    end: u32,
}

impl Table {
    pub fn new(what: &'static str, first: u32, end: u32) -> Self {
        Self { what, names: HashMap::new(), next: first, end }
    }

    pub fn get(&self, name: &str) -> Option<IdentId> {
        self.names.get(name).copied()
    }

    pub fn next_number(&mut self) -> Option<u32> {
        (self.next < self.end).then(|| {
            self.next += 1;
            self.next - 1
        })
    }
}
