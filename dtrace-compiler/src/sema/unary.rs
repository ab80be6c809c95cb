//! Operators with one operand (`dt_cook_op1`, dt_parser.c).

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::cook::Use;
use super::{IdKind, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::syntax::{BinaryOp, UnaryOp};

impl Session<'_> {
    fn cook_operand(&mut self, op: UnaryOp, operand: Node) -> Result<Box<Node>> {
        let changes =
            matches!(op, UnaryOp::PreInc | UnaryOp::PreDec | UnaryOp::PostInc | UnaryOp::PostDec);
        let mut operand = operand;
        if changes && matches!(operand.kind, Kind::Ident(_)) {
            operand = self.find_name(operand, Scope::Global, IdKind::Scalar, true)?;
        }
        let mut operand = self.cook(operand, Use::NONE)?;
        if let Kind::Var(id, _) = operand.kind {
            // A variable without an assignment is an integer.
            if self.is_fresh(id) {
                let int = self.types().special().int64;
                self.ident_mut(id).ty = Some(int);
                self.assign_type(&mut operand, int, false);
            }
            self.note_use(id, if changes { Use::CHANGE } else { Use::READ });
        }
        Ok(Box::new(operand))
    }

    pub fn cook_deref(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Unary(op, operand) = node.kind else { return Ok(node) };
        let operand = self.cook_operand(op, *operand)?;
        let user = operand.flags.user;
        let attr = operand.attr;
        if let Some((xlator, true)) = self.translator(&operand) {
            let output = self.state.xlators[xlator.0].output;
            node.kind = Kind::Unary(op, operand);
            self.assign_type(&mut node, output, user);
            self.assign_attr(&mut node, attr)?;
            return Ok(node);
        }
        let target = match self.kind(&operand) {
            CtfKind::Array | CtfKind::Pointer => self.types().target(self.ty(&operand)),
            _ => None,
        };
        let Some(target) = target else {
            return self.error(ErrTag::DerefNonptr, "cannot dereference non-pointer type");
        };
        let kind = self.types().kind(target);
        if self.types().is_void(target) {
            return self.error(ErrTag::DerefVoid, "cannot dereference pointer to void");
        }
        if kind == CtfKind::Function {
            return self.error(ErrTag::DerefFunc, "cannot dereference pointer to function");
        }
        let writable = operand.flags.writable
            || matches!(&operand.kind, Kind::Binary(BinaryOp::Add, left, _) if left.flags.writable);
        node.kind = Kind::Unary(op, operand);
        self.assign_type(&mut node, target, user);
        if kind != CtfKind::Array || self.is_string(&node) {
            node.flags.lvalue = true;
        }
        node.flags.writable |= writable;
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    pub fn cook_unary(&mut self, mut node: Node, op: UnaryOp) -> Result<Node> {
        let Kind::Unary(_, operand) = node.kind else { return Ok(node) };
        let mut operand = self.cook_operand(op, *operand)?;
        if matches!(op, UnaryOp::AddrOf | UnaryOp::Sizeof) {
            operand = Self::without_text(operand);
        }
        let (attr, user) = (operand.attr, operand.flags.user);
        let text = op.text();
        match op {
            UnaryOp::Plus | UnaryOp::Neg => {
                if !self.is_arith(&operand) {
                    let message = format!("operator {text} requires an operand of arithmetic type");
                    return self.error(ErrTag::OpArith, message);
                }
            }
            UnaryOp::BitNot => {
                if !self.is_integer(&operand) {
                    let message = format!("operator {text} requires an operand of integral type");
                    return self.error(ErrTag::OpInt, message);
                }
            }
            UnaryOp::Not => {
                if !self.is_scalar(&operand) {
                    let message = format!("operator {text} requires an operand of scalar type");
                    return self.error(ErrTag::OpScalar, message);
                }
            }
            UnaryOp::AddrOf => self.check_addressable(&operand)?,
            UnaryOp::Sizeof => {
                if operand.flags.bit_field {
                    let message = "cannot apply sizeof to a bit-field";
                    return self.error(ErrTag::SizeofBitfield, message);
                }
                if self.sizeof(&operand) == 0 {
                    let message = "cannot apply sizeof to an operand of unknown size";
                    return self.error(ErrTag::SizeofType, message);
                }
            }
            UnaryOp::Stringof => {
                if !self.is_scalar(&operand)
                    && !self.is_pointer(&operand)
                    && !self.is_string_like(&operand)
                {
                    let name = self.type_name(&operand);
                    let message = format!("cannot apply stringof to a value of type {name}");
                    return self.error(ErrTag::StringofType, message);
                }
            }
            UnaryOp::PreInc | UnaryOp::PreDec | UnaryOp::PostInc | UnaryOp::PostDec => {
                self.check_countable(&operand, text)?;
            }
            UnaryOp::Deref => {}
        }
        let operand_ty = self.ty(&operand);
        let shape = operand.flags;
        node.kind = Kind::Unary(op, operand);
        let special = self.types().special();
        match op {
            UnaryOp::Not => self.assign_type(&mut node, special.int, false),
            UnaryOp::Sizeof => self.assign_type(&mut node, special.size, false),
            UnaryOp::Stringof => self.assign_type(&mut node, special.string, user),
            UnaryOp::AddrOf => {
                let pointer = self.state.types.pointer(operand_ty);
                self.assign_type(&mut node, pointer, user);
            }
            _ => {
                node.flags = shape;
                node.flags.lvalue = false;
                node.ty = Some(operand_ty);
            }
        }
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    /// Returns the size for `sizeof`; for a symbol, the size of the symbol.
    pub fn sizeof(&self, node: &Node) -> u64 {
        match &node.kind {
            Kind::Sym(id) => self.ident(*id).symbol.as_ref().map_or(0, |symbol| symbol.size),
            _ => self.size(node),
        }
    }

    fn check_addressable(&self, operand: &Node) -> Result<()> {
        if matches!(operand.kind, Kind::Var(..) | Kind::Agg { .. } | Kind::Arg { .. }) {
            return self.error(ErrTag::AddrofVar, "cannot take address of dynamic variable");
        }
        if self.is_dynamic(operand) {
            return self.error(ErrTag::AddrofVar, "cannot take address of dynamic object");
        }
        if !operand.flags.lvalue {
            return self.error(ErrTag::AddrofLval, "unacceptable operand for unary & operator");
        }
        if operand.flags.bit_field {
            return self.error(ErrTag::AddrofBitfield, "cannot take address of bit-field");
        }
        Ok(())
    }

    fn check_countable(&self, operand: &Node, text: &str) -> Result<()> {
        if !self.is_scalar(operand) {
            let message = format!("operator {text} requires operand of scalar type");
            return self.error(ErrTag::OpScalar, message);
        }
        if self.is_void_or_function_pointer(operand) {
            let message = format!("operator {text} requires an operand of known size");
            return self.error(ErrTag::OpVfptr, message);
        }
        self.check_writable(operand, text)
    }

    /// Returns whether a node can be assigned.
    pub fn check_writable(&self, node: &Node, text: &str) -> Result<()> {
        if !node.flags.lvalue {
            let message = format!("operator {text} requires modifiable lvalue as an operand");
            return self.error(ErrTag::OpLval, message);
        }
        if !node.flags.writable {
            let message = format!("operator {text} can only be applied to a writable variable");
            return self.error(ErrTag::OpWrite, message);
        }
        Ok(())
    }
}
