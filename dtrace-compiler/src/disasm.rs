//! The listing that `dtrace -S` prints of a DIFO (dt_dis.c), byte for byte.

use std::fmt::{self, Display, Formatter};

use dtrace_abi::Platform;
use dtrace_abi::dif::{Form, Instr, Opcode, Subr, TypeKind, VarFlags, VarKind, VarScope};

use crate::program::Difo;

/// A DIFO to print; the listing is its [`Display`](std::fmt::Display) form.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// The DIFO.
    pub difo: &'a Difo,
    /// The platform for which the DIFO was compiled; it determines the names of subroutines.
    pub platform: Platform,
    /// The name in the heading, where dtrace(1) prints an address.
    pub name: &'a str,
}

impl Display for Listing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let difo = self.difo;
        writeln!(f, "\nDIFO {} returns {}", self.name, difo.returns)?;
        writeln!(f, "{:<3} {:<8}    INSTRUCTION", "OFF", "OPCODE")?;
        for (index, &instr) in difo.code.iter().enumerate() {
            write!(f, "{index:02}: {:08x}    ", instr.0)?;
            self.instruction(f, instr)?;
            writeln!(f)?;
        }
        if !difo.variables.is_empty() {
            writeln!(
                f,
                "\n{:<16} {:<4} {:<3} {:<3} {:<4} TYPE",
                "NAME", "ID", "KND", "SCP", "FLAG"
            )?;
        }
        for variable in &difo.variables {
            let name = text(difo.string(variable.name).unwrap_or_default());
            let kind = VarKind::from_number(variable.kind).map_or("?", VarKind::name);
            let scope = VarScope::from_number(variable.scope).map_or("?", VarScope::name);
            let flags = match variable.flags & (VarFlags::REF | VarFlags::MOD) {
                0 => "",
                VarFlags::REF => "r",
                VarFlags::MOD => "w",
                _ => "r/w",
            };
            let id = variable.id;
            writeln!(f, "{name:<16} {id:<4} {kind:<3} {scope:<3} {flags:<4} {}", variable.ty)?;
        }
        Ok(())
    }
}

impl Listing<'_> {
    fn instruction(&self, f: &mut Formatter<'_>, instr: Instr) -> fmt::Result {
        let Some(opcode) = instr.opcode() else { return f.write_str("(illegal opcode)") };
        let (r1, r2, rd, operand) = (instr.r1(), instr.r2(), instr.rd(), instr.operand());
        let form = opcode.form();
        if form == Form::Plain {
            return f.write_str(opcode.name());
        }
        write!(f, "{:<4} ", opcode.name())?;
        match form {
            Form::Three => write!(f, "%r{r1}, %r{r2}, %r{rd}"),
            Form::Two => write!(f, "%r{r1}, %r{rd}"),
            Form::Compare => write!(f, "%r{r1}, %r{r2}"),
            Form::Test => write!(f, "%r{r1}"),
            Form::Branch => write!(f, "{}", instr.label()),
            Form::Load => write!(f, "[%r{r1}], %r{rd}"),
            Form::Store => write!(f, "%r{r1}, [%r{rd}]"),
            Form::Return => write!(f, "%r{rd}"),
            Form::Plain => Ok(()),
            Form::Integer => {
                write!(f, "DT_INTEGER[{operand}], %r{rd}")?;
                match self.difo.integers.get(usize::from(operand)) {
                    Some(value) => write!(f, "\t\t! {value:#x}"),
                    None => Ok(()),
                }
            }
            Form::String => {
                write!(f, "DT_STRING[{operand}], %r{rd}")?;
                match self.difo.string(operand.into()) {
                    Some(string) => write!(f, "\t\t! \"{}\"", text(string)),
                    None => Ok(()),
                }
            }
            Form::LoadArray => {
                write!(f, "DT_VAR({r1}), %r{r2}, %r{rd}")?;
                self.variable(f, opcode, r1.into())
            }
            Form::LoadVar => {
                write!(f, "DT_VAR({operand}), %r{rd}")?;
                self.variable(f, opcode, operand)
            }
            Form::StoreVar => {
                write!(f, "%r{rd}, DT_VAR({operand})")?;
                self.variable(f, opcode, operand)
            }
            Form::Call => {
                let subr = Subr::from_number(operand, self.platform).map_or("unknown", Subr::name);
                write!(f, "DIF_SUBR({operand}), %r{rd}\t\t! {subr}")
            }
            Form::Push => {
                if opcode == Opcode::Pushtv {
                    write!(f, "DT_TYPE({r1}), %r{rd}\t\t")?;
                } else {
                    write!(f, "DT_TYPE({r1}), %r{r2}, %r{rd}\t")?;
                }
                match TypeKind::from_number(r1) {
                    Some(kind) => write!(f, "! DT_TYPE({r1}) = {}", kind.name()),
                    None => Ok(()),
                }
            }
            Form::Translate => write!(f, "DT_XLREF[{operand}], %r{rd}"),
        }
    }

    /// Writes the comment with the name of a variable, if the DIFO's table has the variable.
    fn variable(&self, f: &mut Formatter<'_>, opcode: Opcode, id: u16) -> fmt::Result {
        let scope = match opcode.name().as_bytes().get(2) {
            Some(b'l') => VarScope::Local,
            Some(b't') => VarScope::Thread,
            _ => VarScope::Global,
        };
        let mut variables = self.difo.variables.iter();
        let found = variables.find(|v| v.id == u32::from(id) && v.scope == scope.number());
        match found.and_then(|variable| self.difo.string(variable.name)) {
            Some(name) => write!(f, "\t\t! DT_VAR({id}) = \"{}\"", text(name)),
            None => Ok(()),
        }
    }
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
