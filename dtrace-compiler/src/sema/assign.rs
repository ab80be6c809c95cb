//! Assignments.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::cook::Use;
use super::{IdKind, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::syntax::BinaryOp;

impl Session<'_> {
    pub fn cook_assign(&mut self, node: Node) -> Result<Node> {
        match node.kind {
            Kind::Assign(None, ..) => self.cook_plain(node),
            Kind::Assign(Some(_), ..) => self.cook_compound(node),
            _ => Ok(node),
        }
    }

    /// Cooks the left side; an unknown name becomes a variable.
    fn target(&mut self, left: Node, how: Use) -> Result<Box<Node>> {
        let left = match left.kind {
            Kind::AggIdent(_) => self.find_name(left, Scope::Agg, IdKind::Agg, true)?,
            Kind::Ident(_) => self.find_name(left, Scope::Global, IdKind::Scalar, true)?,
            _ => left,
        };
        Ok(Box::new(self.cook(left, how)?))
    }

    fn cook_compound(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Assign(Some(op), left, right) = std::mem::replace(&mut node.kind, Kind::Int(0))
        else {
            return Ok(node);
        };
        let left = match &left.kind {
            // libdtrace uses the name of the aggregation as that of a global variable here.
            Kind::AggIdent(name) if self.global(name).is_none_or(|id| self.is_fresh(id)) => {
                let message = format!("{name} has not yet been declared or assigned");
                return self.error(ErrTag::VarUndef, message);
            }
            Kind::AggIdent(_) => self.cook_boxed(*left, Use::CHANGE)?,
            _ => self.target(*left, Use::CHANGE)?,
        };
        let right = self.cook_boxed(*right, Use::CHANGE)?;
        let text = format!("{}=", op.text());
        match op {
            BinaryOp::Mul | BinaryOp::Div => {
                if !self.is_arith(&left) || !self.is_arith(&right) {
                    let message = format!("operator {text} requires operands of arithmetic type");
                    return self.error(ErrTag::OpArith, message);
                }
            }
            BinaryOp::Add | BinaryOp::Sub => self.check_sum(&text, &left, &right)?,
            _ => self.check_integers(&text, &left, &right)?,
        }
        self.finish(node, Some(op), left, right)
    }

    fn check_sum(&self, text: &str, left: &Node, right: &Node) -> Result<()> {
        if self.is_string(left) || self.is_string(right) {
            return self.incompatible(text, left, right);
        }
        if self.is_integer(left) && self.is_integer(right) {
            return Ok(());
        }
        if !self.is_pointer(left) || self.is_void_or_function_pointer(left) {
            let message =
                format!("operator {text} requires left-hand scalar operand of known size");
            return self.error(ErrTag::OpVfptr, message);
        }
        if !self.is_integer(right) && self.pointer_type(left, right).is_none() {
            return self.incompatible(text, left, right);
        }
        Ok(())
    }

    fn cook_plain(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Assign(_, left, right) = std::mem::replace(&mut node.kind, Kind::Int(0)) else {
            return Ok(node);
        };
        let mut left = self.target(*left, Use::NONE)?;
        let right = self.cook_boxed(*right, Use::READ)?;
        if matches!(left.kind, Kind::Agg { .. }) {
            return self.aggregate(*left, right);
        }
        let translated = self.translator(&right).filter(|&(_, pointer)| !pointer);
        let (ty, user) = match translated {
            Some((xlator, _)) => (self.state.xlators[xlator.0].output, false),
            None => (self.ty(&right), right.flags.user),
        };
        if let Kind::Var(id, _) = left.kind {
            // The first assignment determines the type of a variable.
            if self.is_fresh(id) {
                let lvalue = left.flags;
                self.assign_type(&mut left, ty, user);
                left.flags.lvalue = lvalue.lvalue;
                left.flags.writable = lvalue.writable;
                let ident = self.ident_mut(id);
                ident.ty = Some(ty);
                ident.flags.user |= user;
            }
            self.note_use(id, Use::WRITE);
        }
        if !self.is_string(&left) && matches!(self.kind(&left), CtfKind::Array | CtfKind::Function)
        {
            let name = self.type_name(&left);
            let message = format!("operator = may not be applied to operand of type \"{name}\"");
            return self.error(ErrTag::OpArrfun, message);
        }
        let fits = translated.is_some() && self.types().compatible(self.ty(&left), ty)
            || self.is_assignable(&left, &right)
            || self.is_removal(&left, &right);
        if !fits {
            return self.incompatible("=", &left, &right);
        }
        self.finish(node, None, left, right)
    }

    /// Returns whether an assignment deletes a dynamic variable that is a struct, as 0 does for numbers. libdtrace has
    /// no syntax for it, but the kernel supports it.
    fn is_removal(&self, left: &Node, right: &Node) -> bool {
        let Kind::Var(id, _) = left.kind else { return false };
        let ident = self.ident(id);
        right.int() == Some(0)
            && (ident.kind == IdKind::Array || ident.flags.thread)
            && matches!(self.kind(left), CtfKind::Struct | CtfKind::Union)
    }

    fn finish(
        &mut self,
        mut node: Node,
        op: Option<BinaryOp>,
        left: Box<Node>,
        mut right: Box<Node>,
    ) -> Result<Node> {
        self.cast_constant(&left, &mut right);
        let text = format!("{}=", op.map_or("", BinaryOp::text));
        self.check_writable(&left, &text)?;
        self.propagate(&left, &mut node);
        let attr = left.attr.min(right.attr);
        node.kind = Kind::Assign(op, left, right);
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    /// Checks `@a = count()`: all assignments must use the same function.
    fn aggregate(&mut self, mut left: Node, right: Box<Node>) -> Result<Node> {
        let Kind::Agg { ident, func, .. } = &mut left.kind else { return Ok(left) };
        let agg = *ident;
        let name = self.state.ident(agg).name.clone();
        let function = match right.kind {
            Kind::Func(id, _) if self.state.ident(id).kind == IdKind::AggFunc => id,
            _ => {
                let message =
                    format!("@{name} must be assigned the result of an aggregating function");
                return self.error(ErrTag::AggFunc, message);
            }
        };
        let before = self.state.ident(agg).agg_function;
        if let Some(before) = before.filter(|&before| before != function) {
            let message = format!(
                "aggregation redefined: @{name}\n\t current: @{name} = {}( )\n\tprevious: @{name} = {}( ) : line {}",
                self.ident(function).name,
                self.ident(before).name,
                self.ident(agg).line
            );
            return self.error(ErrTag::AggRedef, message);
        }
        if func.is_some() {
            let message = "operator = requires modifiable lvalue as an operand";
            return self.error(ErrTag::OpLval, message);
        }
        *func = Some(right);
        self.ident_mut(agg).agg_function = Some(function);
        self.cook(left, Use::WRITE)
    }
}
