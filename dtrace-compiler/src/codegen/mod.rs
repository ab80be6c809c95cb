//! Generates DIF from nodes (dt_cg.c), with the same instructions in the same order as libdtrace.

mod access;
mod assemble;
mod assign;
mod call;
mod logic;
mod sum;
mod tables;
mod text;
mod translate;

use std::collections::HashMap;

use dtrace_abi::ErrTag;
use dtrace_abi::dif::{Instr, Opcode, Register};

use crate::error::Result;
use crate::place::Place;
use crate::program::Difo;
use crate::sema::{IdKind, IdentId, Kind, Node, NodeFlags, Session};
use crate::syntax::{BinaryOp, UnaryOp};
use tables::{Integers, Registers, Strings};

/// The target of branches.
type Label = u32;

/// An instruction before assembly.
struct Line {
    label: Option<Label>,
    instr: Instr,
    place: Place,
}

/// The uses of a variable in a DIFO.
#[derive(Clone, Copy, Default)]
struct Usage {
    reads: bool,
    writes: bool,
}

/// The greatest depth of a tree of nodes, including the nodes of expanded inlines.
const DEPTH: u32 = 1000;
/// The greatest number of instructions: no kernel accepts a DOF with more.
const CODE: usize = 1 << 16;

/// A DIFO that is being generated.
struct Gen<'s, 'a> {
    session: &'s mut Session<'a>,
    lines: Vec<Line>,
    labels: Label,
    registers: Registers,
    integers: Integers,
    strings: Strings,
    usage: HashMap<IdentId, Usage>,
    /// The registers of translators' parameters.
    params: HashMap<IdentId, Register>,
    /// The arguments of inlines, the innermost last.
    frames: Vec<Vec<(IdentId, Node)>>,
    depth: u32,
    /// The place of the node that is being generated.
    place: Place,
    /// The place that is stored with the instructions: the place of the node. Within an inline or a translator, the place at
    /// which the program uses it.
    origin: Place,
    /// The number of inlines and translators around the node.
    expanded: u32,
    /// Whether each key or argument is computed just before its push, to use few registers.
    frugal: bool,
}

/// Generates the DIFO of a cooked expression.
pub(crate) fn generate(session: &mut Session<'_>, node: &Node) -> Result<Difo> {
    match attempt(session, node, false) {
        // If libdtrace's order needs too many registers, a second attempt uses another order.
        Err(error) if error.tag == Some(ErrTag::Noreg) => {
            attempt(session, node, true).map_err(|other| match other.tag {
                Some(_) => error,
                None => other,
            })
        }
        done => done,
    }
}

fn attempt(session: &mut Session<'_>, node: &Node, frugal: bool) -> Result<Difo> {
    if session.translator(node).is_some_and(|(_, pointer)| pointer) {
        let message = "expression cannot evaluate to result of a translated pointer";
        return session.error_at(node.place, ErrTag::CgDyn, message);
    }
    let registers = Registers::new(session.state.options.integer_registers);
    let mut generator = Gen {
        session,
        lines: Vec::new(),
        labels: 0,
        registers,
        integers: Integers::default(),
        strings: Strings::new(),
        usage: HashMap::new(),
        params: HashMap::new(),
        frames: Vec::new(),
        depth: 0,
        place: node.place,
        origin: node.place,
        expanded: 0,
        frugal,
    };
    let mut result = generator.node(node)?;
    if let Some((xlator, false)) = generator.session.translator(node) {
        let whole = generator.expand(xlator, result)?;
        generator.registers.free(result);
        result = whole;
    }
    generator.emit(Instr::ret(result));
    let difo = generator.assemble(node)?;
    if session.state.options.list_difos {
        session.listed.push(difo.clone());
    }
    Ok(difo)
}

impl Gen<'_, '_> {
    /// Generates a part of an inline or a translator, whose own place is not in the program.
    fn expanded(&mut self, node: &Node) -> Result<Register> {
        self.expanded += 1;
        let register = self.node(node)?;
        self.expanded -= 1;
        Ok(register)
    }

    fn emit(&mut self, instr: Instr) {
        self.lines.push(Line { label: None, instr, place: self.origin });
    }

    fn emit_at(&mut self, label: Label, instr: Instr) {
        self.lines.push(Line { label: Some(label), instr, place: self.origin });
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        self.labels - 1
    }

    fn alloc(&mut self) -> Result<Register> {
        match self.registers.alloc() {
            Some(register) => Ok(register),
            None => {
                let message = "Insufficient registers to generate code";
                self.session.error_at(self.place, ErrTag::Noreg, message)
            }
        }
    }

    /// Loads an integer into a register.
    fn set(&mut self, register: Register, value: u64) -> Result<()> {
        let instr = self.set_instr(register, value, true)?;
        self.emit(instr);
        Ok(())
    }

    fn set_instr(&mut self, register: Register, value: u64, shared: bool) -> Result<Instr> {
        Ok(Instr::setx(self.integers.add(value, shared)?, register))
    }

    /// Allocates a register with an integer.
    fn int(&mut self, value: u64) -> Result<Register> {
        let register = self.alloc()?;
        self.set(register, value)?;
        Ok(register)
    }

    /// Generates `op` of a register and an integer, in place.
    fn with_int(&mut self, op: Opcode, register: Register, value: u64) -> Result<()> {
        let other = self.int(value)?;
        self.emit(Instr::three(op, register, other, register));
        self.registers.free(other);
        Ok(())
    }

    /// Generates a node. Returns the register with its value, or its address if it is by reference.
    fn node(&mut self, node: &Node) -> Result<Register> {
        if self.depth >= DEPTH || self.lines.len() >= CODE {
            let message = "the expression is too large after its inlines are expanded";
            return self.session.error_at(node.place, ErrTag::Unknown, message);
        }
        self.depth += 1;
        let place = std::mem::replace(&mut self.place, node.place);
        let origin = self.origin;
        if self.expanded == 0 {
            self.origin = node.place;
        }
        let register = self.node_as(node, node.flags)?;
        (self.place, self.origin) = (place, origin);
        self.depth -= 1;
        Ok(register)
    }

    /// Generates a node with other flags.
    fn node_as(&mut self, node: &Node, flags: NodeFlags) -> Result<Register> {
        match &node.kind {
            Kind::Int(value) => self.int(*value),
            Kind::Str(bytes) => {
                let register = self.alloc()?;
                let offset = self.strings.add(bytes)?;
                self.emit(Instr::sets(offset, register));
                Ok(register)
            }
            Kind::Var(id, keys) => self.variable(node, *id, keys, flags),
            Kind::Arg { mapping, .. } => self.argument(node, *mapping),
            Kind::Text { mapping, .. } => self.text(node, *mapping),
            Kind::TextIn(inner, places) => self.text_in(node, inner, *places),
            Kind::Element { mapping, index, .. } => self.slice_element(node, *mapping, index),
            Kind::Sym(id) => self.symbol(node, *id, flags),
            Kind::Func(id, args) => self.function(node, *id, args),
            Kind::Unary(op, operand) => self.unary(node, *op, operand, flags),
            Kind::Binary(op, left, right) => self.binary(node, *op, left, right),
            Kind::Assign(op, left, right) => {
                let register = match op {
                    None => self.node(right)?,
                    Some(op) => self.arithmetic(node, *op, left, right)?,
                };
                self.assign(node, left, right, register)
            }
            Kind::Ternary(test, yes, no) => self.ternary(test, yes, no),
            Kind::Dot(base, name) | Kind::Arrow(base, name) => self.member(node, base, name, flags),
            Kind::Cast(_, value) => {
                let register = self.node(value)?;
                self.convert(value, node, register)?;
                Ok(register)
            }
            Kind::Xlate(_, value, _) => self.node(value),
            Kind::Ident(_) | Kind::AggIdent(_) | Kind::Index(..) | Kind::Agg { .. } => {
                let what = self.session.node_name(node);
                let message = format!("{what} may not be used in a D expression");
                self.session.error_at(node.place, ErrTag::CgExpr, message)
            }
        }
    }

    fn unary(
        &mut self,
        node: &Node,
        op: UnaryOp,
        operand: &Node,
        flags: NodeFlags,
    ) -> Result<Register> {
        match op {
            UnaryOp::Plus | UnaryOp::Stringof => self.node(operand),
            UnaryOp::Neg => {
                let register = self.node(operand)?;
                self.emit(Instr::three(Opcode::Sub, 0, register, register));
                Ok(register)
            }
            UnaryOp::BitNot => {
                let register = self.node(operand)?;
                self.emit(Instr::two(Opcode::Not, register, register));
                Ok(register)
            }
            UnaryOp::Not => self.not(operand),
            UnaryOp::Deref => self.deref(node, operand, flags),
            UnaryOp::AddrOf => self.node_as(operand, NodeFlags { by_ref: true, ..operand.flags }),
            UnaryOp::Sizeof => {
                let size = self.session.sizeof(operand);
                self.int(size)
            }
            UnaryOp::PreInc => self.count_before(node, operand, Opcode::Add),
            UnaryOp::PreDec => self.count_before(node, operand, Opcode::Sub),
            UnaryOp::PostInc => self.count_after(node, operand, Opcode::Add),
            UnaryOp::PostDec => self.count_after(node, operand, Opcode::Sub),
        }
    }

    fn binary(&mut self, node: &Node, op: BinaryOp, left: &Node, right: &Node) -> Result<Register> {
        match op {
            BinaryOp::Comma => {
                let register = self.node(left)?;
                self.registers.free(register);
                self.node(right)
            }
            BinaryOp::AndAnd => self.and(left, right),
            BinaryOp::OrOr => self.or(left, right),
            BinaryOp::XorXor => self.xor(left, right),
            BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::Less
            | BinaryOp::LessEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterEqual => self.compare(op, left, right),
            _ => self.arithmetic(node, op, left, right),
        }
    }

    fn usage(&mut self, id: IdentId) -> &mut Usage {
        self.usage.entry(id).or_default()
    }

    fn number(&self, id: IdentId) -> u16 {
        // Numbers of variables end at 0xffff.
        self.session.ident(id).id as u16
    }

    fn is_array(&self, id: IdentId) -> bool {
        self.session.ident(id).kind == IdKind::Array
    }
}
