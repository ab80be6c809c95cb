//! Calls, keys, and inlines.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::{Instr, Opcode, Register, Subr, TypeKind};

use super::Gen;
use crate::error::{Error, Result};
use crate::sema::{Function, IdentId, Kind, Node};
use crate::syntax::UnaryOp;

impl Gen<'_, '_> {
    /// Pushes arguments or keys onto the tuple stack, with the types of the name's signature.
    pub(super) fn push_all(&mut self, id: IdentId, args: &[Node]) -> Result<()> {
        // Nodes without side effects that do not use the tuple stack are generated just before their push.
        let waits = self.frugal && args.iter().all(|arg| !has_effect(arg));
        let mut registers = Vec::with_capacity(args.len());
        for arg in args {
            let early = !(waits && self.needs_no_stack(arg));
            registers.push(if early { Some(self.node(arg)?) } else { None });
        }
        self.emit(Instr::FLUSHTS);
        for (index, (arg, register)) in args.iter().zip(registers).enumerate() {
            let register = match register {
                Some(register) => register,
                None => self.node(arg)?,
            };
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

    /// Returns whether a node can be generated between the pushes of others.
    fn needs_no_stack(&self, node: &Node) -> bool {
        match &node.kind {
            Kind::Int(_) | Kind::Str(_) => true,
            Kind::Var(id, keys) => keys.is_empty() && !self.session.ident(*id).flags.inline,
            Kind::Unary(_, operand) => self.needs_no_stack(operand),
            Kind::Binary(_, left, right) => self.needs_no_stack(left) && self.needs_no_stack(right),
            Kind::Cast(_, value) => self.needs_no_stack(value),
            _ => false,
        }
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
        let args = self.checked(node, subr, args)?;
        match (subr, args, self.session.state.options.max_scratch) {
            (Subr::Alloca, [size], Some(most)) if size.int().is_none() => {
                self.push_limited(size, most)?;
            }
            _ => self.push_all(id, args)?,
        }
        let register = self.alloc()?;
        self.call(node, subr, register)?;
        Ok(register)
    }

    /// Pushes a size onto the tuple stack. A size above the limit becomes one that every kernel refuses.
    fn push_limited(&mut self, size: &Node, most: u64) -> Result<()> {
        let register = self.node(size)?;
        let limit = self.int(most)?;
        self.emit(Instr::compare(Opcode::Cmp, register, limit));
        self.registers.free(limit);
        let fits = self.label();
        self.emit(Instr::branch(Opcode::Bleu, fits));
        self.set(register, i64::MAX as u64)?;
        self.emit_at(fits, Instr::FLUSHTS);
        self.emit(Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, register));
        self.registers.free(register);
        Ok(())
    }

    /// Returns the arguments of a subroutine that the kernel receives.
    fn checked<'n>(&self, node: &Node, subr: Subr, args: &'n [Node]) -> Result<&'n [Node]> {
        match (subr, args) {
            // The second argument selects whether a single group of zeroes is kept. The kernel always keeps it, so only
            // the address is passed.
            (Subr::InetNtoa6, [address, strict]) => {
                if strict.int().is_none() {
                    let message = "inet_ntoa6( ) argument #2 must be an integer constant";
                    return self.session.error_at(strict.place, ErrTag::ProtoArg, message);
                }
                Ok(std::slice::from_ref(address))
            }
            (Subr::Alloca, [size]) => {
                let most = self.session.state.options.max_scratch;
                if let (Some(size), Some(most)) = (size.int(), most)
                    && size > most
                {
                    let message =
                        format!("alloca( ) size ({size}) is larger than scratchsize ({most})");
                    return self.session.error_at(node.place, ErrTag::AllocaSize, message);
                }
                Ok(args)
            }
            _ => Ok(args),
        }
    }

    pub(super) fn call(&mut self, node: &Node, subr: Subr, register: Register) -> Result<()> {
        match Instr::call(subr, self.session.state.platform, register) {
            Some(instr) => {
                self.emit(instr);
                Ok(())
            }
            None => {
                let message = format!("{}( ) is not available on this platform", subr.name());
                self.session.error_at(node.place, ErrTag::FuncUndef, message)
            }
        }
    }

    /// Generates the value of an inline, with its parameters bound to the arguments.
    pub(super) fn inline(&mut self, node: &Node, id: IdentId, args: &[Node]) -> Result<Register> {
        let bound = self.frames.iter().enumerate().rev().find_map(|(depth, frame)| {
            let (_, value) = frame.iter().find(|(param, _)| *param == id)?;
            Some((depth, value.clone()))
        });
        if let Some((depth, value)) = bound {
            // The argument is resolved in the scope of the call.
            let inner = self.frames.split_off(depth);
            let register = self.node(&value)?;
            self.frames.extend(inner);
            self.convert(&value, node, register)?;
            return Ok(register);
        }
        let inline = self.session.ident(id).inline.clone().unwrap_or_default();
        let Some(root) = inline.root else {
            let message = format!(
                "inline parameter {} has no value outside of its inline",
                self.session.ident(id).name
            );
            return self.session.error_at(node.place, ErrTag::Unknown, message);
        };
        let params = inline.params.iter().zip(args);
        let frame = params.filter_map(|(param, arg)| Some(((*param)?, arg.clone()))).collect();
        self.frames.push(frame);
        let register = self.expanded(&root)?;
        self.frames.pop();
        self.convert(&root, node, register)?;
        Ok(register)
    }
}

/// Returns whether a node, or one within it, may have side effects.
fn has_effect(node: &Node) -> bool {
    match &node.kind {
        Kind::Assign(..) | Kind::Func(..) | Kind::Xlate(..) => true,
        Kind::Unary(op, operand) => counts(*op) || has_effect(operand),
        Kind::Binary(_, left, right) => has_effect(left) || has_effect(right),
        Kind::Ternary(test, yes, no) => [test, yes, no].iter().any(|node| has_effect(node)),
        Kind::Cast(_, value) => has_effect(value),
        Kind::Dot(base, _) | Kind::Arrow(base, _) => has_effect(base),
        Kind::Var(_, keys) => keys.iter().any(has_effect),
        _ => false,
    }
}

const fn counts(op: UnaryOp) -> bool {
    matches!(op, UnaryOp::PreInc | UnaryOp::PreDec | UnaryOp::PostInc | UnaryOp::PostDec)
}
