//! Nodes: expressions between the tree and the code.

use dtrace_abi::stability::Attribute;

use super::id::{IdentId, XlatorId};
use crate::place::Place;
use crate::syntax::{BinaryOp, UnaryOp};
use crate::types::{Text, TypeId};

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub place: Place,
    pub kind: Kind,
    /// Its type, after cooking.
    pub ty: Option<TypeId>,
    pub flags: NodeFlags,
    pub attr: Attribute,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Int(u64),
    Str(Vec<u8>),
    /// A name before it is resolved.
    Ident(String),
    /// The name of an aggregation before it is resolved.
    AggIdent(String),
    /// A variable, with its keys if it has any.
    Var(IdentId, Vec<Node>),
    /// An element of `args`: the argument of the probe, and its translator.
    Arg {
        ident: IdentId,
        mapping: u8,
        xlator: Option<(XlatorId, bool)>,
    },
    /// An element of `args` that is text: the argument with the address of the text. The next argument is the length.
    Text {
        ident: IdentId,
        mapping: u8,
    },
    /// The text whose address and length are in a struct.
    TextIn(Box<Node>, Text),
    /// A pointer to an element of a slice in `args`: the argument with the slice's address, and the index. The next argument is
    /// the length of the slice.
    Element {
        ident: IdentId,
        mapping: u8,
        index: Box<Node>,
    },
    /// A symbol of a kernel.
    Sym(IdentId),
    Func(IdentId, Vec<Node>),
    Agg {
        ident: IdentId,
        keys: Vec<Node>,
        func: Option<Box<Node>>,
    },
    /// An operator with one operand.
    Unary(UnaryOp, Box<Node>),
    Binary(BinaryOp, Box<Node>, Box<Node>),
    Assign(Option<BinaryOp>, Box<Node>, Box<Node>),
    Ternary(Box<Node>, Box<Node>, Box<Node>),
    /// An index before it is resolved.
    Index(Box<Node>, Vec<Node>),
    Dot(Box<Node>, String),
    Arrow(Box<Node>, String),
    Cast(TypeRef, Box<Node>),
    /// `xlate`, and after cooking whether the result is a pointer, and the translator.
    Xlate(TypeRef, Box<Node>, Option<(XlatorId, bool)>),
}

/// A type in the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeRef {
    pub ty: TypeId,
    pub user: bool,
    pub attr: Attribute,
}

/// Properties of a node's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFlags {
    pub signed: bool,
    pub cooked: bool,
    /// The node yields the address of the value.
    pub by_ref: bool,
    pub lvalue: bool,
    pub writable: bool,
    pub bit_field: bool,
    /// The value is, or is in, the memory of a process.
    pub user: bool,
}

impl Node {
    pub fn new(place: Place, kind: Kind) -> Self {
        Self { place, kind, ty: None, flags: NodeFlags::default(), attr: Attribute::DEFAULT }
    }

    /// Returns the operands: the nodes directly below this node.
    pub fn children(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::Int(_)
            | Kind::Str(_)
            | Kind::Ident(_)
            | Kind::AggIdent(_)
            | Kind::Arg { .. }
            | Kind::Text { .. }
            | Kind::Sym(_) => Vec::new(),
            Kind::Var(_, nodes) | Kind::Func(_, nodes) => nodes.iter().collect(),
            Kind::Agg { keys, func, .. } => keys.iter().chain(func.as_deref()).collect(),
            Kind::Element { index: node, .. }
            | Kind::TextIn(node, _)
            | Kind::Unary(_, node)
            | Kind::Dot(node, _)
            | Kind::Arrow(node, _)
            | Kind::Cast(_, node)
            | Kind::Xlate(_, node, _) => vec![node],
            Kind::Binary(_, left, right) | Kind::Assign(_, left, right) => vec![left, right],
            Kind::Ternary(test, yes, no) => vec![test, yes, no],
            Kind::Index(array, keys) => std::iter::once(&**array).chain(keys).collect(),
        }
    }

    /// Returns the value, if the node is a constant.
    pub const fn int(&self) -> Option<u64> {
        match self.kind {
            Kind::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value, if the node is a constant that is greater than zero.
    pub fn positive(&self) -> Option<u64> {
        self.int().filter(|&value| value != 0 && (!self.flags.signed || value as i64 > 0))
    }

    /// Returns the name, if the node is a variable, symbol, function or aggregation.
    pub const fn ident(&self) -> Option<IdentId> {
        match self.kind {
            Kind::Var(id, _) | Kind::Sym(id) | Kind::Func(id, _) | Kind::Agg { ident: id, .. } => {
                Some(id)
            }
            Kind::Arg { ident, .. } | Kind::Text { ident, .. } | Kind::Element { ident, .. } => {
                Some(ident)
            }
            _ => None,
        }
    }
}
