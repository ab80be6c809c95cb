//! Names and their meanings.

use std::collections::HashMap;

use dtrace_abi::dif::Subr;
use dtrace_abi::stability::Attribute;

use super::action::TracingFunction;
use super::id::IdentId;
use super::node::Node;
use crate::surroundings::Symbol;
use crate::types::TypeId;
use crate::version::Version;

/// The kinds of names.
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
    /// Returns the name of the kind in errors (`dt_idkind_name`, dt_ident.c).
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

/// Properties of a name, and its uses so far.
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

/// The rule by which the type of a name is found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cooking {
    /// By the declaration or the first assignment of the name.
    Known,
    /// The type has this name.
    Named(String),
    /// A function with this prototype.
    Prototype(String),
    /// An associative array or an aggregation.
    Keys,
    /// The name is `args`.
    Args,
    /// The name is `uregs`.
    Regs,
    /// An inline.
    Inline,
}

/// The type of a key or a parameter, and a node with the properties that must be equal.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub ty: TypeId,
    pub node: Box<Node>,
}

/// The keys or parameters of a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    /// The index from which any parameters are allowed.
    pub variable_from: Option<usize>,
    /// The index from which parameters are optional.
    pub optional_from: Option<usize>,
    /// The parameters; `None` is for any type.
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

/// A function of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Subr(Subr),
    Agg(dtrace_abi::action::Action),
    Act(TracingFunction),
}

/// A name.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub name: String,
    pub kind: IdKind,
    pub flags: Flags,
    /// The number of the variable.
    pub id: u32,
    pub function: Option<Function>,
    pub attr: Attribute,
    pub cooking: Cooking,
    pub ty: Option<TypeId>,
    pub signature: Option<Signature>,
    pub inline: Option<Inline>,
    /// The function of an aggregation.
    pub agg_function: Option<IdentId>,
    pub symbol: Option<Symbol>,
    /// The first version of D that has it, if not all have it.
    pub since: Option<Version>,
    /// The number of the program that declares it; 0 for names of D.
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

    /// Returns the scope in front of the name.
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

/// The names of a scope, and the numbers that are left for variables.
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
