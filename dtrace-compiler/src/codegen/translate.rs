//! Translators.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::{Instr, Opcode, Register, Subr, TypeKind};

use super::Gen;
use crate::error::Result;
use crate::sema::{IdentId, Node, XlatorId};
use crate::types::{Member, Type};

impl Gen<'_, '_> {
    /// Generates code with a translator's parameter in a register.
    fn with_param<T>(
        &mut self,
        param: IdentId,
        register: Register,
        what: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.params.insert(param, register);
        let result = what(self)?;
        match before {
            Some(before) => self.params.insert(param, before),
            None => self.params.remove(&param),
        };
        Ok(result)
    }

    /// Generates a member of a translator's output from the input in a register.
    pub(super) fn translated_member(
        &mut self,
        node: &Node,
        xlator: XlatorId,
        name: &str,
        input: Register,
    ) -> Result<Register> {
        let translator = &self.session.state.xlators[xlator.0];
        let param = translator.param;
        let Some((_, _, value)) = translator.member(name).cloned() else {
            let message = format!("translator does not define conversion for member: {name}");
            return self.session.error_at(node.place, ErrTag::XlateNoconv, message);
        };
        let register = self.with_param(param, input, |generator| {
            let register = generator.expanded(&value)?;
            generator.convert(&value, node, register)?;
            Ok(register)
        })?;
        self.registers.free(input);
        Ok(register)
    }

    /// Generates all members of a translation in scratch space, for an assignment.
    pub(super) fn copy_translated(
        &mut self,
        xlator: XlatorId,
        input: Register,
    ) -> Result<Register> {
        let translator = self.session.state.xlators[xlator.0].clone();
        let size = self.session.types().size(translator.output);
        let whole = self.int(size)?;
        self.emit(Instr::two(Opcode::Allocs, whole, whole));
        for (name, target, value) in &translator.members {
            self.with_param(translator.param, input, |generator| {
                let register = generator.expanded(value)?;
                generator.convert(value, target, register)?;
                let offset = generator.session.types().member(translator.output, name);
                let offset = offset.map_or(0, |info| info.offset / 8);
                if offset == 0 {
                    generator.store(target, register, target, whole)?;
                } else {
                    let address = generator.int(offset)?;
                    generator.emit(Instr::three(Opcode::Add, whole, address, address));
                    generator.store(target, register, target, address)?;
                    generator.registers.free(address);
                }
                generator.registers.free(register);
                Ok(())
            })?;
        }
        self.registers.free(input);
        Ok(whole)
    }

    /// Generates all members of a translation in memory of `alloca`, for a value.
    pub(super) fn expand(&mut self, xlator: XlatorId, input: Register) -> Result<Register> {
        let translator = self.session.state.xlators[xlator.0].clone();
        let output = self.session.types().resolve(translator.output);
        let size = self.session.types().size(output);
        let whole = self.int(size)?;
        let place = self.session.type_node(output);
        self.emit(Instr::FLUSHTS);
        self.emit(Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, whole));
        self.call(&place, Subr::Alloca, whole)?;
        let members = match self.session.types().get(output) {
            Type::Record { members, .. } => members.clone(),
            _ => Vec::new(),
        };
        for Member { name, offset, .. } in members {
            let Some((_, _, value)) = name.and_then(|name| translator.member(&name).cloned())
            else {
                continue;
            };
            let register =
                self.with_param(translator.param, input, |generator| generator.expanded(&value))?;
            let address = self.int(offset / 8)?;
            self.emit(Instr::three(Opcode::Add, whole, address, address));
            let size = self.session.types().size(self.session.ty(&value));
            if self.session.is_scalar(&value) {
                self.store(&value, register, &value, address)?;
            } else {
                let count = self.int(size)?;
                if self.session.is_string(&value) {
                    self.emit(Instr::three(Opcode::Copys, register, count, address));
                } else {
                    self.emit(Instr::FLUSHTS);
                    for argument in [register, address, count] {
                        self.emit(Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, argument));
                    }
                    self.call(&place, Subr::Bcopy, count)?;
                }
                self.registers.free(count);
            }
            self.registers.free(address);
            self.registers.free(register);
        }
        Ok(whole)
    }
}
