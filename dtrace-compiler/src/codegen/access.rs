//! Loads of variables, memory and members.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::{Instr, Opcode, Register, VAR_ARRAY_MAX};

use super::Gen;
use crate::error::Result;
use crate::sema::{IdentId, Kind, Node, NodeFlags};
use crate::types::{MemberInfo, TypeId};

/// The address of elements outside of a slice, in the last page: a host allows no program to read it.
const OUTSIDE: u64 = 4096u64.wrapping_neg();

impl Gen<'_, '_> {
    pub(super) fn variable(
        &mut self,
        node: &Node,
        id: IdentId,
        keys: &[Node],
        flags: NodeFlags,
    ) -> Result<Register> {
        if let Some(&param) = self.params.get(&id) {
            let register = self.alloc()?;
            self.emit(Instr::two(Opcode::Mov, param, register));
            return Ok(register);
        }
        if self.session.ident(id).flags.inline {
            return self.inline(node, id, keys);
        }
        if self.is_array(id) {
            return if self.number(id) > VAR_ARRAY_MAX {
                self.associative(node, id, keys, flags)
            } else {
                self.element(id, keys)
            };
        }
        let register = self.alloc()?;
        let ident_flags = self.session.ident(id).flags;
        let op = if ident_flags.local {
            Opcode::Ldls
        } else if ident_flags.thread {
            Opcode::Ldts
        } else {
            Opcode::Ldgs
        };
        self.usage(id).reads = true;
        let number = self.number(id);
        self.emit(Instr::var(op, number, register));
        Ok(register)
    }

    /// Loads an element of an associative array. If the element is missing and its value is by reference, loads zeroes
    /// from scratch space.
    fn associative(
        &mut self,
        node: &Node,
        id: IdentId,
        keys: &[Node],
        flags: NodeFlags,
    ) -> Result<Register> {
        self.push_all(id, keys)?;
        let register = self.alloc()?;
        let thread = self.session.ident(id).flags.thread;
        let (load, store) =
            if thread { (Opcode::Ldtaa, Opcode::Sttaa) } else { (Opcode::Ldgaa, Opcode::Stgaa) };
        let number = self.number(id);
        self.usage(id).reads = true;
        self.emit(Instr::var(load, number, register));
        if flags.by_ref {
            let there = self.label();
            self.emit(Instr::test(register));
            self.emit(Instr::branch(Opcode::Bne, there));
            let size = self.session.size(node);
            self.set(register, size)?;
            self.emit(Instr::two(Opcode::Allocs, register, register));
            self.usage(id).writes = true;
            self.emit(Instr::var(store, number, register));
            self.emit(Instr::var(load, number, register));
            self.emit_at(there, Instr::NOP);
        }
        Ok(register)
    }

    /// Loads an element of one of the kernel's arrays.
    fn element(&mut self, id: IdentId, keys: &[Node]) -> Result<Register> {
        let register = match keys.first() {
            Some(key) => self.node(key)?,
            None => self.int(0)?,
        };
        self.usage(id).reads = true;
        let array = self.session.ident(id).id as u8;
        self.emit(Instr::three(Opcode::Ldga, array, register, register));
        Ok(register)
    }

    /// Loads all 64 bits of an argument of the probe.
    pub(super) fn word(&mut self, mapping: u8) -> Result<Register> {
        let register = self.int(mapping.into())?;
        let args = dtrace_abi::dif::Builtin::Args.number() as u8;
        self.emit(Instr::three(Opcode::Ldga, args, register, register));
        Ok(register)
    }

    /// Loads an argument of the probe: the part of the kernel's 64 bits that its type uses.
    pub(super) fn argument(&mut self, node: &Node, mapping: u8) -> Result<Register> {
        let register = self.word(mapping)?;
        let size = self.session.size(node);
        if self.session.is_scalar(node) && size < 8 {
            self.narrow(register, size, node.flags.signed)?;
        }
        Ok(register)
    }

    /// Returns the address of an element of a slice. For an index outside the slice, the address is invalid.
    pub(super) fn slice_element(
        &mut self,
        node: &Node,
        mapping: u8,
        index: &Node,
    ) -> Result<Register> {
        let index = self.node(index)?;
        let address = self.word(mapping)?;
        let length = self.word(mapping + 1)?;
        let inside = self.label();
        self.emit(Instr::compare(Opcode::Cmp, index, length));
        self.registers.free(length);
        self.emit(Instr::branch(Opcode::Blu, inside));
        self.set(address, OUTSIDE)?;
        self.emit(Instr::two(Opcode::Mov, 0, index));
        self.emit_at(inside, Instr::NOP);
        let types = self.session.types();
        let size = types.target(self.session.ty(node)).map_or(1, |element| types.size(element));
        if size != 1 {
            self.with_int(Opcode::Mul, index, size)?;
        }
        self.emit(Instr::three(Opcode::Add, address, index, address));
        self.registers.free(index);
        Ok(address)
    }

    /// Sign- or zero-extends the lowest `size` bytes.
    pub(super) fn narrow(&mut self, register: Register, size: u64, signed: bool) -> Result<()> {
        let count = self.int(64 - size * 8)?;
        self.emit(Instr::three(Opcode::Sll, register, count, register));
        let op = if signed { Opcode::Sra } else { Opcode::Srl };
        self.emit(Instr::three(op, register, count, register));
        self.registers.free(count);
        Ok(())
    }

    pub(super) fn symbol(
        &mut self,
        node: &Node,
        id: IdentId,
        flags: NodeFlags,
    ) -> Result<Register> {
        let address = self.session.ident(id).symbol.as_ref().map_or(0, |symbol| symbol.address);
        let register = self.alloc()?;
        let instr = self.set_instr(register, address, false)?;
        self.emit(instr);
        if !flags.by_ref {
            let ty = self.session.ty(node);
            let op = self.load(node, ty, flags)?;
            self.emit(Instr::two(op, register, register));
        }
        Ok(register)
    }

    pub(super) fn deref(
        &mut self,
        node: &Node,
        operand: &Node,
        flags: NodeFlags,
    ) -> Result<Register> {
        let register = self.node(operand)?;
        if let Some((xlator, true)) = self.session.translator(operand) {
            let whole = self.expand(xlator, register)?;
            self.registers.free(register);
            return Ok(whole);
        }
        if !flags.by_ref {
            let flags = NodeFlags { user: flags.user || operand.flags.user, ..flags };
            let ty = self.session.ty(node);
            let op = self.load(node, ty, flags)?;
            self.emit(Instr::two(op, register, register));
        }
        Ok(register)
    }

    /// Returns the instruction that loads a value of a type.
    pub(super) fn load(&self, node: &Node, ty: TypeId, flags: NodeFlags) -> Result<Opcode> {
        let size = self.session.types().size(ty);
        Ok(match (size, flags.signed, flags.user) {
            (1, false, false) => Opcode::Ldub,
            (1, true, false) => Opcode::Ldsb,
            (2, false, false) => Opcode::Lduh,
            (2, true, false) => Opcode::Ldsh,
            (4, false, false) => Opcode::Lduw,
            (4, true, false) => Opcode::Ldsw,
            (8, _, false) => Opcode::Ldx,
            (1, false, true) => Opcode::Uldub,
            (1, true, true) => Opcode::Uldsb,
            (2, false, true) => Opcode::Ulduh,
            (2, true, true) => Opcode::Uldsh,
            (4, false, true) => Opcode::Ulduw,
            (4, true, true) => Opcode::Uldsw,
            (8, _, true) => Opcode::Uldx,
            _ => {
                let message =
                    format!("internal error -- cg cannot load size {size} when passed by value");
                return self.session.error_at(node.place, ErrTag::Unknown, message);
            }
        })
    }

    /// Returns the member that `.` or `->` names.
    pub(super) fn member_info(
        &mut self,
        node: &Node,
        base: &Node,
        name: &str,
    ) -> Result<MemberInfo> {
        let mut ty = self.session.types().resolve(self.session.ty(base));
        if matches!(node.kind, Kind::Arrow(..)) {
            ty = self.session.types().target(ty).unwrap_or(ty);
        }
        let tag = self.session.types().c_name(self.session.types().resolve(ty));
        let found = self.session.types().member(ty, name);
        // A struct that was only mentioned when the pointer was declared may have been defined since.
        let found = found.or_else(|| {
            let defined = self.session.type_named(&tag)?;
            self.session.types().member(defined, name)
        });
        match found {
            Some(info) => Ok(info),
            None => {
                let message = format!("{name} is not a member of {tag}");
                self.session.error_at(node.place, ErrTag::TypeMember, message)
            }
        }
    }

    pub(super) fn member(
        &mut self,
        node: &Node,
        base: &Node,
        name: &str,
        flags: NodeFlags,
    ) -> Result<Register> {
        let register = self.node(base)?;
        if let Some((xlator, _)) = self.session.translator(base) {
            return self.translated_member(node, xlator, name, register);
        }
        let info = self.member_info(node, base, name)?;
        if info.offset != 0 {
            self.with_int(Opcode::Add, register, info.offset / 8)?;
        }
        if !flags.by_ref {
            let load_flags = NodeFlags { user: flags.user || base.flags.user, ..flags };
            let op = self.load(node, info.ty, load_flags)?;
            self.emit(Instr::two(op, register, register));
            if flags.bit_field {
                self.extract(register, info, flags.signed)?;
            }
        }
        Ok(register)
    }

    /// Extracts a bit-field from a loaded value.
    fn extract(&mut self, register: Register, info: MemberInfo, signed: bool) -> Result<()> {
        let bits = u64::from(self.session.types().integer(info.ty).map_or(0, |int| int.0));
        let shift = info.offset % 8;
        let other = self.alloc()?;
        let steps = if signed {
            [(Opcode::Sll, 64u64.wrapping_sub(shift + bits)), (Opcode::Sra, 64 - bits)]
        } else {
            [(Opcode::Srl, shift), (Opcode::And, ones(bits))]
        };
        for (op, value) in steps {
            self.set(other, value)?;
            self.emit(Instr::three(op, register, other, register));
        }
        self.registers.free(other);
        Ok(())
    }
}

/// Returns a mask of a number of ones.
pub(super) const fn ones(bits: u64) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
