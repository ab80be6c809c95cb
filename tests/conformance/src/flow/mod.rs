//! Decoders for the three architectures, only for the flow of control.

mod aarch64;
mod riscv64;
mod x86_64;

use cargo_sdt::internal::arch::Arch;

/// The flow of control after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continues with the next instruction.
    Next,
    /// Calls another function, and continues with the next instruction when that returns.
    Call,
    /// Continues at this distance in bytes, or with the next instruction.
    Branch(i64),
    /// Continues at this distance in bytes.
    Jump(i64),
    /// Out of the function: back to its caller.
    Return,
    /// Continues at an unknown address, from a register, or with an exception.
    Leave,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The length in bytes.
    pub len: u64,
    /// The flow of control after it.
    pub flow: Flow,
    /// It has no effect.
    pub nop: bool,
    /// It belongs to the set-up or removal of a function's frame: it saves, restores or sets the frame pointer.
    pub frame: bool,
}

/// Decodes the first instruction of some code.
pub fn decode(arch: Arch, code: &[u8]) -> Option<Instruction> {
    match arch {
        Arch::X86_64 => x86_64::decode(code),
        Arch::Aarch64 => aarch64::decode(code),
        Arch::Riscv64 => riscv64::decode(code),
    }
}

/// Returns the lowest `bits` of a number as a signed number.
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
