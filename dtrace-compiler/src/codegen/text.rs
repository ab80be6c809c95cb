//! Strings from text with address and length.

use dtrace_abi::dif::{Instr, Opcode, Register, Subr, TypeKind};

use super::Gen;
use crate::error::Result;
use crate::sema::Node;
use crate::types::Text;

/// The replacement for a NUL in the text, which would end the string.
const INSTEAD: u8 = b'?';

/// The greatest size in bytes of a string of `memstr`, including the NUL (`dtrace_memstr_max`, FreeBSD's dtrace.c).
const MOST: u64 = 4096;

impl Gen<'_, '_> {
    /// Generates `memstr(argN, '?', min(argM, most) + 1)`, which reads no byte after the text.
    pub(super) fn text(&mut self, node: &Node, mapping: u8) -> Result<Register> {
        let address = self.word(mapping)?;
        let size = self.word(mapping + 1)?;
        self.string(node, address, size)
    }

    /// Generates the string of the text whose address and length are in a struct.
    pub(super) fn text_in(&mut self, node: &Node, inner: &Node, places: Text) -> Result<Register> {
        let address = self.node(inner)?;
        let size = self.alloc()?;
        self.emit(Instr::two(Opcode::Mov, address, size));
        for (register, offset) in [(address, places.address), (size, places.length)] {
            if offset != 0 {
                self.with_int(Opcode::Add, register, offset)?;
            }
            self.emit(Instr::two(Opcode::Ldx, register, register));
        }
        self.string(node, address, size)
    }

    /// Generates the string of the text at an address with a size.
    fn string(&mut self, node: &Node, address: Register, size: Register) -> Result<Register> {
        let room = self.session.size(node).clamp(1, MOST);
        let most = self.int(room - 1)?;
        let fits = self.label();
        self.emit(Instr::compare(Opcode::Cmp, size, most));
        self.emit(Instr::branch(Opcode::Bleu, fits));
        self.emit(Instr::two(Opcode::Mov, most, size));
        self.emit_at(fits, Instr::NOP);
        self.registers.free(most);
        // Adds one for the terminating NUL.
        self.with_int(Opcode::Add, size, 1)?;
        let instead = self.int(INSTEAD.into())?;
        self.emit(Instr::FLUSHTS);
        for register in [address, instead, size] {
            self.emit(Instr::push(Opcode::Pushtv, TypeKind::Ctf, 0, register));
        }
        self.registers.free(instead);
        self.registers.free(size);
        self.call(node, Subr::Memstr, address)?;
        Ok(address)
    }
}
