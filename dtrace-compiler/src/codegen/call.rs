//! Calls, keys, and inlines.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::{Instr, Opcode, Register, Subr, TypeKind};

use super::Gen;
use crate::error::{Error, Result};
use crate::sema::{Function, IdentId, Node};

impl Gen<'_, '_> {
    /// Puts arguments or keys onto the tuple stack, as the name's signature wants them.
    pub(super) fn push_all(&mut self, id: IdentId, args: &[Node]) -> Result<()> {
        let registers = args.iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>>>()?;
        self.emit(Instr::FLUSHTS);
        for (index, (arg, &register)) in args.iter().zip(&registers).enumerate() {
            let param = self.session.ident(id).signature.as_ref();
            let param = param.and_then(|s| s.params.get(index)?.as_ref()).map(|p| p.node.clone());
            if let Some(param) = param {
                self.convert(arg, &param, register)?;
            }
            let ty = self.session.dif_type(arg);
            let kind = if ty.is_string() { TypeKind::String } else { TypeKind::Ctf };
            let by_ref = ty.flags & dtrace_abi::dif::DifType::BYREF != 0;
            if by_ref {
                let size = if ty.size != 0 { self.int(ty.size.into())? } else { 0 };
                self.emit(Instr::push(Opcode::Pushtr, kind, size, register));
                self.registers.free(register);
                self.registers.free(size);
            } else {
                self.emit(Instr::push(Opcode::Pushtv, kind, 0, register));
                self.registers.free(register);
            }
        }
        if args.len() > usize::from(self.session.state.options.tuple_registers) {
            return Err(Error::library("Insufficient tuple registers to generate code"));
        }
        Ok(())
    }

    pub(super) fn function(&mut self, node: &Node, id: IdentId, args: &[Node]) -> Result<Register> {
        let ident = self.session.ident(id);
        let Some(Function::Subr(subr)) = ident.function else {
            let message = format!(
                "{} {}( ) may not be called from a D expression (D program context required)",
                ident.kind.name(),
                ident.name
            );
            return self.session.error_at(node.place, ErrTag::CgExpr, message);
        };
        self.push_all(id, args)?;
        let register = self.alloc()?;
        self.call(node, subr, register)?;
        Ok(register)
    }

    pub(super) fn call(&mut self, node: &Node, subr: Subr, register: Register) -> Result<()> {
        match Instr::call(subr, self.session.state.platform, register) {
            Some(instr) => {
                self.emit(instr);
                Ok(())
            }
            None => {
                let message = format!("{}( ) is not there on this platform", subr.name());
                self.session.error_at(node.place, ErrTag::FuncUndef, message)
            }
        }
    }

    /// An inline's value, its parameters bound to what it is called with.
    pub(super) fn inline(&mut self, node: &Node, id: IdentId, args: &[Node]) -> Result<Register> {
        let bound = self.frames.iter().enumerate().rev().find_map(|(depth, frame)| {
            let (_, value) = frame.iter().find(|(param, _)| *param == id)?;
            Some((depth, value.clone()))
        });
        if let Some((depth, value)) = bound {
            // What a parameter stands for was written where the inline was called.
            let inner = self.frames.split_off(depth);
            let register = self.node(&value)?;
            self.frames.extend(inner);
            self.convert(&value, node, register)?;
            return Ok(register);
        }
        let inline = self.session.ident(id).inline.clone().unwrap_or_default();
        let Some(root) = inline.root else {
            let message = format!("{} has no value here", self.session.ident(id).name);
            return self.session.error_at(node.place, ErrTag::Unknown, message);
        };
        let params = inline.params.iter().zip(args);
        let frame = params.filter_map(|(param, arg)| Some(((*param)?, arg.clone()))).collect();
        self.frames.push(frame);
        let register = self.node(&root)?;
        self.frames.pop();
        self.convert(&root, node, register)?;
        Ok(register)
    }
}
