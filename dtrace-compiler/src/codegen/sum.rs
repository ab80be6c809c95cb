//! Arithmetic, and conversions between sizes.

use dtrace_abi::dif::{Instr, Opcode, Register};

use super::Gen;
use crate::error::Result;
use crate::sema::Node;
use crate::syntax::BinaryOp;

impl Gen<'_, '_> {
    pub(super) fn arithmetic(
        &mut self,
        node: &Node,
        op: BinaryOp,
        left: &Node,
        right: &Node,
    ) -> Result<Register> {
        let signed = node.flags.signed;
        let opcode = match (op, signed) {
            (BinaryOp::Or, _) => Opcode::Or,
            (BinaryOp::Xor, _) => Opcode::Xor,
            (BinaryOp::And, _) => Opcode::And,
            (BinaryOp::Shl, _) => Opcode::Sll,
            (BinaryOp::Shr, true) => Opcode::Sra,
            (BinaryOp::Shr, false) => Opcode::Srl,
            (BinaryOp::Sub, _) => Opcode::Sub,
            (BinaryOp::Mul, _) => Opcode::Mul,
            (BinaryOp::Div, true) => Opcode::Sdiv,
            (BinaryOp::Div, false) => Opcode::Udiv,
            (BinaryOp::Rem, true) => Opcode::Srem,
            (BinaryOp::Rem, false) => Opcode::Urem,
            _ => Opcode::Add,
        };
        let is_sum = matches!(op, BinaryOp::Add | BinaryOp::Sub);
        let (left_pointer, right_pointer) =
            (self.session.is_pointer(left), self.session.is_pointer(right));
        let difference = left_pointer && right_pointer;
        let scales = is_sum && !difference;
        let register = self.node(left)?;
        if scales && right_pointer {
            self.scale(right, Opcode::Mul, register)?;
        }
        let other = self.node(right)?;
        if scales && left_pointer {
            self.scale(left, Opcode::Mul, other)?;
        }
        self.emit(Instr::three(opcode, register, other, register));
        self.registers.free(other);
        if difference {
            self.scale(right, Opcode::Udiv, register)?;
        }
        Ok(register)
    }

    /// Multiplies with, or divides by, the size of a pointer's target.
    fn scale(&mut self, pointer: &Node, op: Opcode, register: Register) -> Result<()> {
        let types = self.session.types();
        let size = types.target(self.session.ty(pointer)).map_or(1, |target| types.size(target));
        if size == 1 {
            return Ok(());
        }
        self.with_int(op, register, size)
    }

    /// Converts the value of `from` to the type of `to`, if that is a scalar: truncates it, or extends it by the sign of `from`.
    pub(super) fn convert(&mut self, from: &Node, to: &Node, register: Register) -> Result<()> {
        if !self.session.is_scalar(to) {
            return Ok(());
        }
        let (from_size, to_size) = (self.session.size(from), self.session.size(to));
        if from_size == to_size && from.flags.signed != to.flags.signed
            || to_size > from_size && !from.flags.signed
        {
            return Ok(());
        }
        if to_size > from_size {
            // `void` has no size; the value is not used.
            let from_size = from_size.max(1);
            let (n, s) = (64 - from_size * 8, (to_size - from_size) * 8);
            let count = self.alloc()?;
            self.set(count, n)?;
            self.emit(Instr::three(Opcode::Sll, register, count, register));
            if to.flags.signed || n == s {
                self.emit(Instr::three(Opcode::Sra, register, count, register));
            } else {
                self.set(count, s)?;
                self.emit(Instr::three(Opcode::Sra, register, count, register));
                self.set(count, n - s)?;
                self.emit(Instr::three(Opcode::Srl, register, count, register));
            }
            self.registers.free(count);
        } else if to_size != 8 {
            self.narrow(register, to_size, to.flags.signed)?;
        }
        Ok(())
    }
}
