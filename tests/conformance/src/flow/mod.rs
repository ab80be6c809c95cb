//! Code of the three architectures, as far as it takes to tell where control goes.

mod aarch64;
mod riscv64;
mod x86_64;

use cargo_sdt::internal::arch::Arch;

/// Where control goes from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next one.
    Next,
    /// To another function, and on to the next one when that returns.
    Call,
    /// So many bytes from here, or to the next one.
    Branch(i64),
    /// So many bytes from here.
    Jump(i64),
    /// Out of the function: back to its caller.
    Return,
    /// To an unknown address, by a register, or into an exception.
    Leave,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// How many bytes it has.
    pub len: u64,
    /// Where control goes from it.
    pub flow: Flow,
    /// It does nothing.
    pub nop: bool,
    /// It belongs to what sets up a function's frame or leaves it: saves and restores the frame pointer, or gives
    /// it its value.
    pub frame: bool,
}

/// The first of some instructions.
pub fn decode(arch: Arch, code: &[u8]) -> Option<Instruction> {
    match arch {
        Arch::X86_64 => x86_64::decode(code),
        Arch::Aarch64 => aarch64::decode(code),
        Arch::Riscv64 => riscv64::decode(code),
    }
}

/// The lowest `bits` of a number, as a signed one.
const fn signed(value: u32, bits: u32) -> i64 {
    ((value << (32 - bits)) as i32 >> (32 - bits)) as i64
}

/// `count` bits of an instruction, the lowest of them `low`.
pub(super) const fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_signed() {
        assert_eq!((signed(0x7f, 8), signed(0xff, 8), signed(0x80, 8)), (127, -1, -128));
        assert_eq!(bits(0b1101_0000, 4, 3), 0b101);
    }
}
