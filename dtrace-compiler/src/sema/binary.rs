//! Operators with two operands, brackets, casts (`dt_cook_op2`, dt_parser.c).

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;
use dtrace_abi::stability::Attribute;

use super::cook::Use;
use super::ident::Cooking;
use super::{IdKind, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::syntax::{BinaryOp, UnaryOp};

impl Session<'_> {
    pub fn cook_binary(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Binary(op, left, right) = std::mem::replace(&mut node.kind, Kind::Int(0)) else {
            return Ok(node);
        };
        let left = self.cook_boxed(*left, Use::READ)?;
        let right = if is_comparison(op) { self.enumerator(op, &left, right)? } else { right };
        let right = self.cook_boxed(*right, Use::READ)?;
        let attr = left.attr.min(right.attr);
        let int = self.types().special().int;
        match op {
            BinaryOp::And | BinaryOp::Xor | BinaryOp::Or | BinaryOp::Rem => {
                self.check_integers(op.text(), &left, &right)?;
                self.promote(&left, &right, &mut node)?;
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                self.check_integers(op.text(), &left, &right)?;
                self.propagate(&left, &mut node);
            }
            BinaryOp::Mul | BinaryOp::Div => {
                if !self.is_arith(&left) || !self.is_arith(&right) {
                    let text = op.text();
                    let message = format!("operator {text} requires operands of arithmetic type");
                    return self.error(ErrTag::OpArith, message);
                }
                self.promote(&left, &right, &mut node)?;
            }
            BinaryOp::AndAnd | BinaryOp::XorXor | BinaryOp::OrOr => {
                if !self.is_scalar(&left) || !self.is_scalar(&right) {
                    let text = op.text();
                    let message = format!("operator {text} requires operands of scalar type");
                    return self.error(ErrTag::OpScalar, message);
                }
                self.assign_type(&mut node, int, false);
            }
            BinaryOp::Add | BinaryOp::Sub => self.cook_sum(&mut node, op, &left, &right)?,
            BinaryOp::Comma => {
                if self.is_dynamic(&left) || self.is_dynamic(&right) {
                    let message = "operator , operands cannot be of dynamic type";
                    return self.error(ErrTag::OpDyn, message);
                }
                if self.is_action(&left) || self.is_action(&right) {
                    return self.error(ErrTag::OpAct, "operator , operands cannot be actions");
                }
                self.propagate(&right, &mut node);
            }
            _ => {
                let same = self.types().compatible(self.ty(&left), self.ty(&right))
                    || self.is_integer(&left) && self.is_integer(&right)
                    || self.are_strings(&left, &right)
                    || self.pointer_type(&left, &right).is_some();
                if !same {
                    return self.incompatible(op.text(), &left, &right);
                }
                self.assign_type(&mut node, int, false);
            }
        }
        node.kind = Kind::Binary(op, left, right);
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    pub fn check_integers(&self, text: &str, left: &Node, right: &Node) -> Result<()> {
        if self.is_integer(left) && self.is_integer(right) {
            return Ok(());
        }
        self.error(ErrTag::OpInt, format!("operator {text} requires operands of integral type"))
    }

    pub fn incompatible<T>(&self, text: &str, left: &Node, right: &Node) -> Result<T> {
        let message = format!(
            "operands have incompatible types: \"{}\" {text} \"{}\"",
            self.type_name(left),
            self.type_name(right)
        );
        self.error(ErrTag::OpIncompat, message)
    }

    /// Resolves `right` as an enumerator, if `left` has an enum type with an enumerator of this name; otherwise returns `right`.
    fn enumerator(&mut self, op: BinaryOp, left: &Node, right: Box<Node>) -> Result<Box<Node>> {
        let Kind::Ident(name) = &right.kind else { return Ok(right) };
        if self.kind(left) != CtfKind::Enum || name.contains('`') {
            return Ok(right);
        }
        let Some(value) = self.types().enumerator(self.ty(left), name) else { return Ok(right) };
        if let Some(id) = self.global(name) {
            let message = format!(
                "ambiguous use of operator {}: {name} is both a {} enum tag and a global {}",
                op.text(),
                self.type_name(left),
                self.ident(id).kind.name()
            );
            return self.error(ErrTag::IdentAmbig, message);
        }
        let mut node = Node::new(right.place, Kind::Int(i64::from(value) as u64));
        self.assign_type(&mut node, self.ty(left), false);
        self.assign_attr(&mut node, Attribute::PRIVATE)?;
        Ok(Box::new(node))
    }

    fn cook_sum(&mut self, node: &mut Node, op: BinaryOp, left: &Node, right: &Node) -> Result<()> {
        let pointer = |node: &Node| {
            self.is_string(node) || self.is_pointer(node) && !self.is_void_or_function_pointer(node)
        };
        let (left_pointer, right_pointer) = (pointer(left), pointer(right));
        let (left_int, right_int) = (self.is_integer(left), self.is_integer(right));
        let (ty, user) = if left_int && right_int {
            (self.promoted(left, right), false)
        } else if left_pointer && right_int {
            (self.ty(left), left.flags.user)
        } else if left_int && right_pointer && op == BinaryOp::Add {
            (self.ty(right), right.flags.user)
        } else if left_pointer
            && right_pointer
            && op == BinaryOp::Sub
            && self.pointer_type(left, right).is_some()
        {
            (self.types().special().ptrdiff, false)
        } else {
            return self.incompatible(op.text(), left, right);
        };
        self.assign_type(node, ty, user);
        Ok(())
    }

    pub fn cook_index(&mut self, mut node: Node, how: Use) -> Result<Node> {
        if let Some(element) = self.cook_slice(&node)? {
            return Ok(element);
        }
        let Kind::Index(array, keys) = node.kind else { return Ok(node) };
        let array = self.find_array(*array)?;
        let plain = match &array.kind {
            Kind::Var(id, args) => match self.ident(*id).kind {
                IdKind::Array => !args.is_empty(),
                _ => !self.is_fresh(*id),
            },
            Kind::Agg { .. } => false,
            _ => true,
        };
        if plain {
            return self.cook_element(node.place, array, keys);
        }
        if let Kind::Agg { ident, keys: before, .. } = &array.kind {
            if !before.is_empty() {
                let message = format!(
                    "improper attempt to reference @{} as a multi-dimensional array",
                    self.ident(*ident).name
                );
                return self.error(ErrTag::AggMdim, message);
            }
            let mut array = array;
            if let Kind::Agg { keys: slot, .. } = &mut array.kind {
                *slot = keys;
            }
            return self.cook(array, Use::NONE);
        }
        let Kind::Var(id, _) = array.kind else {
            return self.cook_element(node.place, array, keys);
        };
        self.check_associative(id)?;
        node.kind = Kind::Var(id, keys);
        node.ty = array.ty;
        node.flags = array.flags;
        node.attr = array.attr;
        self.cook(node, how)
    }

    /// Cooks the expression before brackets: an unknown name becomes an associative array.
    fn find_array(&mut self, array: Node) -> Result<Node> {
        let (scope, name, kind) = match &array.kind {
            Kind::AggIdent(name) => (Scope::Agg, name.clone(), IdKind::Agg),
            Kind::Ident(name) => (Scope::Global, name.clone(), IdKind::Array),
            _ => return self.cook(array, Use::NONE),
        };
        match self.lookup(scope, &name).or_else(|| self.lookup_in_modules(scope, &name)) {
            Some(id) if !self.is_fresh(id) => {
                let kind = self.ident(id).kind;
                self.find_name(array, scope, kind, false)
            }
            _ => self.find_name(array, scope, kind, true),
        }
    }

    fn check_associative(&mut self, id: super::IdentId) -> Result<()> {
        let flags = self.ident(id).flags;
        if self.ident(id).kind == IdKind::Scalar
            && self.is_fresh(id)
            && (flags.local || flags.thread)
        {
            if flags.local {
                let message = format!(
                    "local variables may not be used as associative arrays: {}",
                    self.ident(id).name
                );
                return self.error(ErrTag::ArrLocal, message);
            }
            let ident = self.ident_mut(id);
            ident.kind = IdKind::Array;
            ident.cooking = Cooking::Keys;
            ident.signature = None;
        }
        let ident = self.ident(id);
        if ident.kind != IdKind::Array {
            let message = format!(
                "{} '{}' may not be referenced as {}",
                ident.kind.name(),
                ident.name,
                IdKind::Array.name()
            );
            return self.error(ErrTag::IdentBadref, message);
        }
        Ok(())
    }

    /// Cooks `a[i]` as `*(a + i)`, if `a` is no associative array.
    fn cook_element(
        &mut self,
        place: crate::place::Place,
        array: Node,
        keys: Vec<Node>,
    ) -> Result<Node> {
        let count = keys.len();
        let Some(index) = keys.into_iter().next() else {
            return self.error(ErrTag::ArrBadref, "an array element requires an index");
        };
        let name = self.node_name(&array);
        let sum = Node::new(place, Kind::Binary(BinaryOp::Add, Box::new(array), Box::new(index)));
        let sum = self.cook(sum, Use::READ)?;
        if count > 1 {
            let message = format!("cannot access {name} as an associative array");
            return self.error(ErrTag::ArrBadref, message);
        }
        self.cook(Node::new(place, Kind::Unary(UnaryOp::Deref, Box::new(sum))), Use::READ)
    }

    pub fn cook_cast(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Cast(to, value) = node.kind else { return Ok(node) };
        let value = self.cook_boxed(*value, Use::READ)?;
        let mut target = self.type_node(to.ty);
        target.flags.user = to.user;
        let (to_kind, from_kind) = (self.kind(&target), self.kind(&value));
        let allowed = self.types().compatible(to.ty, self.ty(&value))
            || self.is_scalar(&target)
                && (self.is_scalar(&value) || from_kind == CtfKind::Function)
            || self.is_void(&target)
            || to_kind == CtfKind::Pointer && self.is_pointer(&value)
            || self.is_string(&target)
                && (self.is_scalar(&value)
                    || self.is_pointer(&value)
                    || self.is_string_like(&value));
        if !allowed {
            let message = format!(
                "invalid cast expression: \"{}\" to \"{}\"",
                self.type_name(&value),
                self.type_name(&target)
            );
            return self.error(ErrTag::CastInval, message);
        }
        let attr = to.attr.min(value.attr);
        node.kind = Kind::Cast(to, value);
        self.propagate(&target, &mut node);
        node.flags.writable |= to_kind == CtfKind::Pointer;
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }
}

pub(super) const fn is_comparison(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::Less
            | BinaryOp::LessEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterEqual
    )
}
