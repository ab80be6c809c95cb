//! Conditions and branches.

use dtrace_abi::dif::{Instr, Opcode, Register};

use super::Gen;
use crate::error::Result;
use crate::sema::Node;
use crate::syntax::BinaryOp;

impl Gen<'_, '_> {
    pub(super) fn compare(&mut self, op: BinaryOp, left: &Node, right: &Node) -> Result<Register> {
        let signed = self.compares_signed(left, right);
        let (yes, end) = (self.label(), self.label());
        let register = self.node(left)?;
        let other = self.node(right)?;
        let strings = self.session.is_string(left) || self.session.is_string(right);
        let compare = if strings { Opcode::Scmp } else { Opcode::Cmp };
        self.emit(Instr::compare(compare, register, other));
        self.registers.free(other);
        let branch = match (op, signed) {
            (BinaryOp::NotEqual, _) => Opcode::Bne,
            (BinaryOp::Less, true) => Opcode::Bl,
            (BinaryOp::Less, false) => Opcode::Blu,
            (BinaryOp::LessEqual, true) => Opcode::Ble,
            (BinaryOp::LessEqual, false) => Opcode::Bleu,
            (BinaryOp::Greater, true) => Opcode::Bg,
            (BinaryOp::Greater, false) => Opcode::Bgu,
            (BinaryOp::GreaterEqual, true) => Opcode::Bge,
            (BinaryOp::GreaterEqual, false) => Opcode::Bgeu,
            _ => Opcode::Be,
        };
        self.emit(Instr::branch(branch, yes));
        self.emit(Instr::two(Opcode::Mov, 0, register));
        self.emit(Instr::branch(Opcode::Ba, end));
        let one = self.set_instr(register, 1, true)?;
        self.emit_at(yes, one);
        self.emit_at(end, Instr::NOP);
        Ok(register)
    }

    /// Returns whether operands are compared as signed: strings are, pointers are not, and integers by their common type.
    fn compares_signed(&self, left: &Node, right: &Node) -> bool {
        let session = &*self.session;
        if session.is_string(left) || session.is_string(right) {
            return true;
        }
        if !session.is_arith(left) || !session.is_arith(right) {
            return false;
        }
        let ty = session.promoted(left, right);
        session.types().integer(ty).is_some_and(|(_, signed)| signed)
    }

    pub(super) fn ternary(&mut self, test: &Node, yes: &Node, no: &Node) -> Result<Register> {
        let (otherwise, end) = (self.label(), self.label());
        let register = self.node(test)?;
        self.emit(Instr::test(register));
        self.registers.free(register);
        self.emit(Instr::branch(Opcode::Be, otherwise));
        let from = self.node(yes)?;
        // The result's register is known only after the second operand, so a nop reserves the place of the `mov`.
        let mov = self.lines.len();
        self.emit(Instr::NOP);
        self.registers.free(from);
        self.emit(Instr::branch(Opcode::Ba, end));
        self.emit_at(otherwise, Instr::NOP);
        let to = self.node(no)?;
        self.lines[mov].instr = Instr::two(Opcode::Mov, from, to);
        self.emit_at(end, Instr::NOP);
        Ok(to)
    }

    /// Generates a node and tests its value.
    fn tested(&mut self, node: &Node) -> Result<Register> {
        let register = self.node(node)?;
        self.emit(Instr::test(register));
        Ok(register)
    }

    pub(super) fn and(&mut self, left: &Node, right: &Node) -> Result<Register> {
        let (no, end) = (self.label(), self.label());
        let first = self.tested(left)?;
        self.registers.free(first);
        self.emit(Instr::branch(Opcode::Be, no));
        let register = self.tested(right)?;
        self.emit(Instr::branch(Opcode::Be, no));
        self.set(register, 1)?;
        self.emit(Instr::branch(Opcode::Ba, end));
        self.emit_at(no, Instr::two(Opcode::Mov, 0, register));
        self.emit_at(end, Instr::NOP);
        Ok(register)
    }

    pub(super) fn or(&mut self, left: &Node, right: &Node) -> Result<Register> {
        let (yes, no, end) = (self.label(), self.label(), self.label());
        let first = self.tested(left)?;
        self.registers.free(first);
        self.emit(Instr::branch(Opcode::Bne, yes));
        let register = self.tested(right)?;
        self.emit(Instr::branch(Opcode::Be, no));
        let one = self.set_instr(register, 1, true)?;
        self.emit_at(yes, one);
        self.emit(Instr::branch(Opcode::Ba, end));
        self.emit_at(no, Instr::two(Opcode::Mov, 0, register));
        self.emit_at(end, Instr::NOP);
        Ok(register)
    }

    pub(super) fn xor(&mut self, left: &Node, right: &Node) -> Result<Register> {
        let (next, end) = (self.label(), self.label());
        let register = self.tested(left)?;
        self.emit(Instr::branch(Opcode::Be, next));
        self.set(register, 1)?;
        self.emit_at(next, Instr::NOP);
        let other = self.tested(right)?;
        self.emit(Instr::branch(Opcode::Be, end));
        self.set(other, 1)?;
        self.emit_at(end, Instr::three(Opcode::Xor, register, other, register));
        self.registers.free(other);
        Ok(register)
    }

    pub(super) fn not(&mut self, operand: &Node) -> Result<Register> {
        let (zero, end) = (self.label(), self.label());
        let register = self.tested(operand)?;
        self.emit(Instr::branch(Opcode::Be, zero));
        self.emit(Instr::two(Opcode::Mov, 0, register));
        self.emit(Instr::branch(Opcode::Ba, end));
        let one = self.set_instr(register, 1, true)?;
        self.emit_at(zero, one);
        self.emit_at(end, Instr::NOP);
        Ok(register)
    }
}
