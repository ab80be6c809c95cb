//! Assembles instructions to a DIFO (dt_as.c).

use std::collections::HashMap;

use dtrace_abi::dif::{Form, Instr, Opcode, Subr, VarFlags, VarKind, VarScope, Variable};

use super::{Gen, Usage};
use crate::error::Result;
use crate::program::Difo;
use crate::sema::{IdKind, IdentId, Node};

impl Gen<'_, '_> {
    /// Resolves labels, and removes nops that only carry a label.
    pub(super) fn assemble(mut self, node: &Node) -> Result<Difo> {
        let mut labels = HashMap::new();
        let mut places = Vec::with_capacity(self.lines.len());
        let mut code = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            if let Some(label) = line.label {
                labels.insert(label, code.len() as u32);
            }
            if line.label.is_none() || line.instr != Instr::NOP {
                code.push(line.instr);
                places.push(line.place);
            }
        }
        let platform = self.session.state.platform;
        let mut destructive = false;
        for instr in &mut code {
            let Some(op) = instr.opcode() else { continue };
            match op.form() {
                Form::Branch => {
                    let to = labels.get(&instr.label()).copied().unwrap_or(0);
                    *instr = Instr::branch(op, to);
                }
                Form::Call => {
                    let subr = Subr::from_number(instr.operand(), platform);
                    destructive |= matches!(subr, Some(Subr::Copyout | Subr::Copyoutstr));
                }
                _ => {}
            }
        }
        debug_assert!(code.last().and_then(|instr| instr.opcode()) == Some(Opcode::Ret));
        let variables = self.variables()?;
        Ok(Difo {
            code,
            places,
            integers: self.integers.values,
            strings: self.strings.finish(),
            variables,
            returns: self.session.dif_type(node),
            destructive,
        })
    }

    /// Returns the used variables: thread-local, global, then clause-local ones, by number.
    fn variables(&mut self) -> Result<Vec<Variable>> {
        let mut used: Vec<_> = self.usage.iter().map(|(&id, &usage)| (id, usage)).collect();
        used.sort_by_key(|&(id, _)| {
            let ident = self.session.ident(id);
            let scope = match (ident.flags.thread, ident.flags.local) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            };
            (scope, ident.id)
        });
        used.into_iter().map(|(id, usage)| self.describe(id, usage)).collect()
    }

    fn describe(&mut self, id: IdentId, usage: Usage) -> Result<Variable> {
        let ident = self.session.ident(id);
        let kind = if ident.kind == IdKind::Array { VarKind::Array } else { VarKind::Scalar };
        let scope = if ident.flags.local {
            VarScope::Local
        } else if ident.flags.thread {
            VarScope::Thread
        } else {
            VarScope::Global
        };
        let number = ident.id;
        let ty = ident.ty.unwrap_or(self.session.types().special().void);
        let node = self.session.type_node(ty);
        let name = self.session.ident(id).name.clone();
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        Ok(Variable {
            name: self.strings.add(name.as_bytes())?.into(),
            id: number,
            kind: kind.number(),
            scope: scope.number(),
            flags: flag(usage.reads, VarFlags::REF) | flag(usage.writes, VarFlags::MOD),
            ty: self.session.dif_type(&node),
        })
    }
}
