//! A decoder of instructions for the three architectures, as far as sites and fbt need it: the length of an
//! instruction, and whether control continues with the next one.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Mnemonic};

use crate::arch::Arch;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// The length in bytes.
    pub(super) len: u64,
    /// Control always continues with the next instruction: it is not a branch, call, return or breakpoint.
    pub(super) straight: bool,
    /// The instruction has no effect.
    pub(super) nop: bool,
}

/// Decodes the first instruction; `None` if there is none.
pub(super) fn decode(arch: Arch, code: &[u8]) -> Option<Instruction> {
    match arch {
        Arch::X86_64 => {
            let decoded = Decoder::new(64, code, DecoderOptions::NONE).decode();
            let straight = decoded.flow_control() == FlowControl::Next;
            let nop = decoded.mnemonic() == Mnemonic::Nop;
            let len = decoded.len() as u64;
            (decoded.code() != Code::INVALID).then_some(Instruction { len, straight, nop })
        }
        Arch::Aarch64 => aarch64(u32::from_le_bytes(*code.first_chunk()?)),
        Arch::Riscv64 => riscv64(code),
    }
}

/// Follows the encoding tables of the Arm ARM, C4.1.
fn aarch64(word: u32) -> Option<Instruction> {
    const NOP: u32 = 0xd503_201f;
    // UDF.
    if bits(word, 16, 16) == 0 {
        return None;
    }
    // Branches, exceptions and system instructions; after a system instruction, control continues.
    let branch = bits(word, 26, 3) == 0b101 && bits(word, 22, 10) != 0b11_0101_0100;
    Some(Instruction { len: 4, straight: !branch, nop: word == NOP })
}

/// Follows the instruction formats of the RISC-V unprivileged specification.
fn riscv64(code: &[u8]) -> Option<Instruction> {
    const NOPS: [u32; 2] = [0x13, 0x0001];
    const EBREAK: u32 = 0x0010_0073;
    let half = u32::from(u16::from_le_bytes(*code.first_chunk()?));
    if bits(half, 0, 2) == 0b11 {
        let word = u32::from_le_bytes(*code.first_chunk()?);
        // JAL, JALR, BEQ and its like.
        let branch = matches!(bits(word, 0, 7), 0x6f | 0x67 | 0x63) || word == EBREAK;
        return Some(Instruction { len: 4, straight: !branch, nop: NOPS.contains(&word) });
    }
    let branch = match (bits(half, 0, 2), bits(half, 13, 3)) {
        // C.J, C.BEQZ and C.BNEZ.
        (0b01, 0b101..=0b111) => true,
        // C.JALR, C.JR and C.EBREAK.
        (0b10, 0b100) => bits(half, 2, 5) == 0,
        _ => false,
    };
    (half != 0).then_some(Instruction { len: 2, straight: !branch, nop: NOPS.contains(&half) })
}

/// Returns `count` bits of an instruction, the lowest of them `low`.
pub(super) const fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

#[cfg(test)]
#[path = "../../tests/unit/check/instruction.rs"]
mod tests;
