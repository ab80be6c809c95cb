//! Cooking: resolves the names, types and operators of an expression (`dt_node_cook`, dt_parser.c).

use dtrace_abi::ErrTag;
use dtrace_abi::stability::Attribute;

use super::{IdKind, IdentId, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::syntax::UnaryOp;

/// The access to the variable of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// The variable is read, so it must be declared or assigned before.
    pub refers: bool,
    /// The variable is written.
    pub modifies: bool,
}

impl Use {
    pub const NONE: Self = Self { refers: false, modifies: false };
    pub const READ: Self = Self { refers: true, modifies: false };
    pub const WRITE: Self = Self { refers: false, modifies: true };
    pub const CHANGE: Self = Self { refers: true, modifies: true };
}

impl Session<'_> {
    /// Cooks a node. A cooked node stays as it is, except that the access is recorded for its name.
    pub fn cook(&mut self, node: Node, how: Use) -> Result<Node> {
        let place = node.place;
        let mut node = self.at(place, |session| session.cook_here(node, how))?;
        node.flags.cooked = true;
        if let Kind::Var(id, _) | Kind::Agg { ident: id, .. } = node.kind {
            self.note_use(id, how);
        }
        Ok(self.as_text(node))
    }

    pub fn cook_boxed(&mut self, node: Node, how: Use) -> Result<Box<Node>> {
        Ok(Box::new(self.cook(node, how)?))
    }

    /// Cooks several nodes; returns them with the minimum of their attributes.
    pub fn cook_all(&mut self, nodes: Vec<Node>, how: Use) -> Result<(Vec<Node>, Attribute)> {
        let mut attr = Attribute::DEFAULT;
        let mut cooked = Vec::with_capacity(nodes.len());
        for node in nodes {
            let node = self.cook(node, how)?;
            attr = attr.min(node.attr);
            cooked.push(node);
        }
        Ok((cooked, attr))
    }

    pub fn note_use(&mut self, id: IdentId, how: Use) {
        let flags = &mut self.ident_mut(id).flags;
        flags.referred |= how.refers;
        flags.modified |= how.modifies;
    }

    fn cook_here(&mut self, node: Node, how: Use) -> Result<Node> {
        let again = matches!(node.kind, Kind::Var(..) | Kind::Agg { .. });
        if node.flags.cooked && !again {
            return Ok(node);
        }
        match node.kind {
            Kind::Int(_)
            | Kind::Str(_)
            | Kind::Sym(_)
            | Kind::Arg { .. }
            | Kind::Text { .. }
            | Kind::TextIn(..)
            | Kind::Element { .. } => Ok(node),
            Kind::Ident(_) => {
                let node = self.find_name(node, Scope::Global, IdKind::Scalar, false)?;
                self.cook(node, how)
            }
            Kind::AggIdent(_) => {
                let node = self.find_name(node, Scope::Agg, IdKind::Agg, false)?;
                self.cook(node, how)
            }
            Kind::Var(id, _) => self.cook_var(node, id, how),
            Kind::Func(id, _) => self.cook_ident(node, id),
            Kind::Agg { .. } => self.cook_agg(node),
            Kind::Unary(UnaryOp::Deref, _) => self.cook_deref(node),
            Kind::Unary(op, _) => self.cook_unary(node, op),
            Kind::Binary(..) => self.cook_binary(node),
            Kind::Assign(..) => self.cook_assign(node),
            Kind::Ternary(..) => self.cook_ternary(node),
            Kind::Index(..) => self.cook_index(node, how),
            Kind::Dot(..) => self.cook_dot(node),
            Kind::Arrow(..) => self.cook_arrow(node, how),
            Kind::Cast(..) => self.cook_cast(node),
            Kind::Xlate(..) => self.cook_xlate(node),
        }
    }

    fn cook_var(&mut self, node: Node, id: IdentId, how: Use) -> Result<Node> {
        if how.refers && self.is_fresh(id) {
            let ident = self.ident(id);
            let (prefix, name) = (ident.prefix(), &ident.name);
            let message = format!("{prefix}{name} has not yet been declared or assigned");
            return self.error_at(node.place, ErrTag::VarUndef, message);
        }
        self.cook_ident(node, id)
    }

    fn cook_agg(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Agg { ident, keys, func } = node.kind else { return Ok(node) };
        let Some(func) = func else {
            node.kind = Kind::Agg { ident, keys, func: None };
            self.assign_type(&mut node, self.types().special().dynamic, false);
            let attr = self.ident(ident).attr;
            self.assign_attr(&mut node, attr)?;
            return Ok(node);
        };
        let func = self.cook_boxed(*func, Use::READ)?;
        node.kind = Kind::Agg { ident, keys, func: Some(func) };
        self.cook_ident(node, ident)
    }

    fn cook_ternary(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Ternary(test, yes, no) = node.kind else { return Ok(node) };
        let test = self.cook_boxed(*test, Use::READ)?;
        let yes = self.cook_boxed(*yes, Use::READ)?;
        let no = self.cook_boxed(*no, Use::READ)?;
        if !self.is_scalar(&test) {
            return self.error(ErrTag::OpScalar, "operator ?: expression must be of scalar type");
        }
        if self.is_dynamic(&yes) || self.is_dynamic(&no) {
            return self.error(ErrTag::OpDyn, "operator ?: operands cannot be of dynamic type");
        }
        let ty = if self.types().compatible(self.ty(&yes), self.ty(&no)) {
            self.ty(&yes)
        } else if self.is_integer(&yes) && self.is_integer(&no) {
            self.promoted(&yes, &no)
        } else if self.are_strings(&yes, &no) {
            self.types().special().string
        } else if let Some(ty) = self.pointer_type(&yes, &no) {
            ty
        } else {
            let message = "operator ?: operands must have compatible types";
            return self.error(ErrTag::OpIncompat, message);
        };
        if self.is_action(&yes) || self.is_action(&no) {
            return self.error(ErrTag::OpAct, "action cannot be used in a conditional context");
        }
        let attr = test.attr.min(yes.attr.min(no.attr));
        node.kind = Kind::Ternary(test, yes, no);
        self.assign_type(&mut node, ty, false);
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    /// Returns whether both nodes can be compared as strings, and at least one is a string.
    pub fn are_strings(&self, left: &Node, right: &Node) -> bool {
        self.is_string_like(left)
            && self.is_string_like(right)
            && (self.is_string(left) || self.is_string(right))
    }

    pub fn is_action(&self, node: &Node) -> bool {
        matches!(node.kind, Kind::Func(id, _) if self.ident(id).kind == IdKind::ActFunc)
    }
}
