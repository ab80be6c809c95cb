//! Generates stores to variables and memory.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::{Instr, Opcode, Register};

use super::Gen;
use super::access::ones;
use crate::error::Result;
use crate::sema::{IdentId, Kind, Node, NodeFlags};

impl Gen<'_, '_> {
    /// Stores a register to the left side of an assignment. Returns the register with the value.
    pub(super) fn assign(
        &mut self,
        node: &Node,
        left: &Node,
        right: &Node,
        register: Register,
    ) -> Result<Register> {
        let mut register = register;
        if let Some((xlator, false)) = self.session.translator(right) {
            register = self.copy_translated(xlator, register)?;
        }
        match &left.kind {
            Kind::Var(id, keys) => {
                let id = self.session.resolve(*id);
                if self.is_array(id) {
                    self.push_all(id, keys)?;
                }
                self.store_variable(id, register);
            }
            _ => self.store_behind(node, register, left)?,
        }
        Ok(register)
    }

    fn store_variable(&mut self, id: IdentId, register: Register) {
        let flags = self.session.ident(id).flags;
        let op = match (self.is_array(id), flags.local, flags.thread) {
            (true, _, true) => Opcode::Sttaa,
            (true, ..) => Opcode::Stgaa,
            (false, true, _) => Opcode::Stls,
            (false, _, true) => Opcode::Stts,
            (false, ..) => Opcode::Stgs,
        };
        self.usage(id).writes = true;
        let number = self.number(id);
        self.emit(Instr::var(op, number, register));
    }

    /// Stores the value of `source`, which is in a register, to the address that `left` denotes.
    fn store_behind(&mut self, source: &Node, register: Register, left: &Node) -> Result<()> {
        let address = self.node_as(left, NodeFlags { by_ref: true, ..left.flags })?;
        self.store(source, register, left, address)?;
        self.registers.free(address);
        Ok(())
    }

    /// Stores the value of `source`, which is in a register, at an address, with the type of `target`.
    pub(super) fn store(
        &mut self,
        source: &Node,
        register: Register,
        target: &Node,
        address: Register,
    ) -> Result<()> {
        let size = if target.flags.bit_field {
            self.session.types().size(self.session.ty(target))
        } else {
            self.session.size(source)
        };
        if source.flags.by_ref {
            let count = self.int(size)?;
            self.emit(Instr::three(Opcode::Copys, register, count, address));
            self.registers.free(count);
            return Ok(());
        }
        let merged = if target.flags.bit_field {
            Some(self.merge(register, target, address)?)
        } else {
            None
        };
        let op = match size {
            1 => Opcode::Stb,
            2 => Opcode::Sth,
            4 => Opcode::Stw,
            8 => Opcode::Stx,
            _ => {
                let message =
                    format!("internal error -- cg cannot store size {size} when passed by value");
                return self.session.error_at(source.place, ErrTag::Unknown, message);
            }
        };
        self.emit(Instr::two(op, merged.unwrap_or(register), address));
        if let Some(merged) = merged {
            self.registers.free(merged);
        }
        Ok(())
    }

    /// Returns the value at an address with one bit-field replaced.
    fn merge(&mut self, register: Register, target: &Node, address: Register) -> Result<Register> {
        let info = match &target.kind {
            Kind::Dot(base, name) | Kind::Arrow(base, name) => {
                self.member_info(target, base, name)?
            }
            _ => {
                let message = "internal error -- a bit-field is not a member of a struct or union";
                return self.session.error_at(target.place, ErrTag::Unknown, message);
            }
        };
        let bits = u64::from(self.session.types().integer(info.ty).map_or(0, |int| int.0));
        let (shift, field) = (info.offset % 8, ones(bits));
        let (whole, part, count) = (self.alloc()?, self.alloc()?, self.alloc()?);
        let op = self.load(target, info.ty, target.flags)?;
        self.emit(Instr::two(op, address, whole));
        self.set(part, !(field << shift))?;
        self.emit(Instr::three(Opcode::And, whole, part, whole));
        self.set(part, field)?;
        self.emit(Instr::three(Opcode::And, register, part, part));
        self.set(count, shift)?;
        self.emit(Instr::three(Opcode::Sll, part, count, part));
        self.emit(Instr::three(Opcode::Or, whole, part, whole));
        self.registers.free(count);
        self.registers.free(part);
        Ok(whole)
    }

    /// Returns the increment of `++`.
    fn step(&self, node: &Node) -> u64 {
        let types = self.session.types();
        match types.target(self.session.ty(node)) {
            Some(target) if self.session.is_pointer(node) => types.size(target),
            _ => 1,
        }
    }

    pub(super) fn count_before(
        &mut self,
        node: &Node,
        operand: &Node,
        op: Opcode,
    ) -> Result<Register> {
        let register = self.node(operand)?;
        let step = self.step(node);
        self.with_int(op, register, step)?;
        self.store_counted(node, operand, register)?;
        Ok(register)
    }

    pub(super) fn count_after(
        &mut self,
        node: &Node,
        operand: &Node,
        op: Opcode,
    ) -> Result<Register> {
        let register = self.node(operand)?;
        let step = self.step(node);
        let counted = self.int(step)?;
        self.emit(Instr::three(op, register, counted, counted));
        self.store_counted(node, operand, counted)?;
        self.registers.free(counted);
        Ok(register)
    }

    fn store_counted(&mut self, node: &Node, operand: &Node, register: Register) -> Result<()> {
        match &operand.kind {
            Kind::Var(id, _) => {
                let id = self.session.resolve(*id);
                // The tuple stack still has the keys of the load.
                self.store_variable(id, register);
                Ok(())
            }
            _ => self.store_behind(node, register, operand),
        }
    }
}
