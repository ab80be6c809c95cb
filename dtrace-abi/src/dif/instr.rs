//! One instruction: 32 bits, the opcode in the highest eight.

use super::{Opcode, Subr, TypeKind};
use crate::Platform;

/// A register's number; `%r0` is always zero.
pub type Register = u8;

/// An instruction in a DIFO (`dif_instr_t`). It can have any 32 bits; [`opcode`](Self::opcode) and the validator decide
/// whether they are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instr(pub u32);

impl Instr {
    /// `nop`.
    pub const NOP: Self = Self::three(Opcode::Nop, 0, 0, 0);
    /// `flushts`: empties the tuple stack.
    pub const FLUSHTS: Self = Self::three(Opcode::Flushts, 0, 0, 0);
    /// `popts`: removes the last entry from the tuple stack.
    pub const POPTS: Self = Self::three(Opcode::Popts, 0, 0, 0);

    /// Three registers (`DIF_INSTR_FMT`), or other operands in their fields.
    pub const fn three(op: Opcode, r1: Register, r2: Register, rd: Register) -> Self {
        Self(u32::from_le_bytes([rd, r2, r1, op.number()]))
    }

    /// `op %r1, %rd`: `not`, `mov`, `allocs`, loads and stores.
    pub const fn two(op: Opcode, r1: Register, rd: Register) -> Self {
        Self::three(op, r1, 0, rd)
    }

    /// `cmp` or `scmp`.
    pub const fn compare(op: Opcode, r1: Register, r2: Register) -> Self {
        Self::three(op, r1, r2, 0)
    }

    /// `tst %r1`.
    pub const fn test(r1: Register) -> Self {
        Self::three(Opcode::Tst, r1, 0, 0)
    }

    /// A branch to the lower 24 bits of `label`.
    pub const fn branch(op: Opcode, label: u32) -> Self {
        Self((op.number() as u32) << 24 | label & 0x00ff_ffff)
    }

    /// A 16-bit number and a register: `setx`, `sets`, `call`, variables, `xlate`.
    const fn wide(op: Opcode, number: u16, register: Register) -> Self {
        Self((op.number() as u32) << 24 | (number as u32) << 8 | register as u32)
    }

    /// `setx DT_INTEGER[index], %rd`.
    pub const fn setx(index: u16, rd: Register) -> Self {
        Self::wide(Opcode::Setx, index, rd)
    }

    /// `sets DT_STRING[offset], %rd`.
    pub const fn sets(offset: u16, rd: Register) -> Self {
        Self::wide(Opcode::Sets, offset, rd)
    }

    /// `ret %rd`.
    pub const fn ret(rd: Register) -> Self {
        Self::three(Opcode::Ret, 0, 0, rd)
    }

    /// A load or store of a variable.
    pub const fn var(op: Opcode, var: u16, register: Register) -> Self {
        Self::wide(op, var, register)
    }

    /// `call DIF_SUBR(n), %rd`. `None` if the platform does not have the subroutine.
    pub const fn call(subr: Subr, platform: Platform, rd: Register) -> Option<Self> {
        match subr.number(platform) {
            Some(number) => Some(Self::wide(Opcode::Call, number, rd)),
            None => None,
        }
    }

    /// `pushtr` (with the size in `r2`) or `pushtv` (with `%r0`).
    pub const fn push(op: Opcode, kind: TypeKind, r2: Register, rs: Register) -> Self {
        Self::three(op, kind.number(), r2, rs)
    }

    /// Returns the opcode, if its number is valid.
    pub const fn opcode(self) -> Option<Opcode> {
        Opcode::from_number(self.bytes()[3])
    }

    /// Returns the first register; for `push*` the type, for `ldga` and `ldta` the variable.
    pub const fn r1(self) -> u8 {
        self.bytes()[2]
    }

    /// Returns the second register.
    pub const fn r2(self) -> u8 {
        self.bytes()[1]
    }

    /// Returns the destination, or the register that is stored or pushed.
    pub const fn rd(self) -> u8 {
        self.bytes()[0]
    }

    /// Returns the target of a branch: the index of an instruction.
    pub const fn label(self) -> u32 {
        self.0 & 0x00ff_ffff
    }

    /// Returns the index of an integer, the offset of a string, or the number of a variable or subroutine.
    pub const fn operand(self) -> u16 {
        u16::from_le_bytes([self.bytes()[1], self.bytes()[2]])
    }

    const fn bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions of a real libdtrace (FreeBSD 13, `dtrace -S`).
    #[test]
    fn encodings() {
        assert_eq!(Instr::setx(1, 2).0, 0x2500_0102);
        assert_eq!(Instr::sets(5, 2).0, 0x2600_0502);
        assert_eq!(Instr::ret(1).0, 0x2300_0001);
        assert_eq!(Instr::branch(Opcode::Be, 6).0, 0x1200_0006);
        assert_eq!(Instr::three(Opcode::Sll, 1, 2, 1).0, 0x0401_0201);
        assert_eq!(Instr::var(Opcode::Stls, 0x500, 1).0, 0x3905_0001);
        assert_eq!(Instr::push(Opcode::Pushtr, TypeKind::String, 4, 2).0, 0x3001_0402);
        assert_eq!(Instr::call(Subr::Json, Platform::Freebsd, 1).unwrap().0, 0x2f00_3401);
        assert_eq!(Instr::call(Subr::Memref, Platform::Illumos, 1), None);
        assert_eq!(Instr::two(Opcode::Stb, 1, 2).0, 0x3c01_0002);
    }

    #[test]
    fn fields() {
        let instr = Instr::var(Opcode::Stls, 0x0512, 3);
        assert_eq!((instr.opcode(), instr.operand(), instr.rd()), (Some(Opcode::Stls), 0x512, 3));
        assert_eq!(Instr(0xff00_0000).opcode(), None);
        assert_eq!(Instr(0).opcode(), None);
    }
}
