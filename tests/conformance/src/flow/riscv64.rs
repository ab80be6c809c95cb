//! riscv64, by the instruction formats of the RISC-V unprivileged specification.

use super::{Flow, Instruction, bits, signed};

const NOP: u32 = 0x13;
const C_NOP: u32 = 1;
const EBREAK: u32 = 0x0010_0073;

const RA: u32 = 1;
const SP: u32 = 2;
const S0: u32 = 8;

pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let half = u32::from(u16::from_le_bytes(*code.first_chunk()?));
    if half & 0b11 != 0b11 {
        return compressed(half);
    }
    let word = u32::from_le_bytes(*code.first_chunk()?);
    let keeps_return = bits(word, 7, 5) != 0;
    let flow = match bits(word, 0, 7) {
        // JAL.
        0x6f if keeps_return => Flow::Call,
        0x6f => {
            let low = bits(word, 21, 10) << 1 | bits(word, 20, 1) << 11 | bits(word, 12, 8) << 12;
            Flow::Jump(signed(low | bits(word, 31, 1) << 20, 21))
        }
        // JALR.
        0x67 if keeps_return => Flow::Call,
        0x67 if bits(word, 15, 5) == RA => Flow::Return,
        0x67 => Flow::Leave,
        // BEQ and its like.
        0x63 => {
            let low = bits(word, 8, 4) << 1 | bits(word, 25, 6) << 5 | bits(word, 7, 1) << 11;
            Flow::Branch(signed(low | bits(word, 31, 1) << 12, 13))
        }
        _ if word == EBREAK => Flow::Leave,
        _ => Flow::Next,
    };
    Some(Instruction { len: 4, flow, nop: word == NOP, frame: is_frame(word) })
}

/// `sd ra, n(sp)`, `sd s0, n(sp)`, `ld ra, n(sp)`, `ld s0, n(sp)`, `addi s0, sp, n`, and the room for the two,
/// `addi sp, sp, n`.
const fn is_frame(word: u32) -> bool {
    let (destination, base, source) = (bits(word, 7, 5), bits(word, 15, 5), bits(word, 20, 5));
    base == SP
        && match (bits(word, 0, 7), bits(word, 12, 3)) {
            (0x23, 0b011) => matches!(source, RA | S0),
            (0x03, 0b011) => matches!(destination, RA | S0),
            (0x13, 0b000) => matches!(destination, S0 | SP),
            _ => false,
        }
}

fn compressed(half: u32) -> Option<Instruction> {
    if half == 0 {
        return None;
    }
    let (source, destination) = (bits(half, 2, 5), bits(half, 7, 5));
    let flow = match (bits(half, 0, 2), bits(half, 13, 3)) {
        // C.J.
        (0b01, 0b101) => {
            let low = bits(half, 3, 3) << 1 | bits(half, 11, 1) << 4 | bits(half, 2, 1) << 5;
            let high = bits(half, 7, 1) << 6 | bits(half, 6, 1) << 7 | bits(half, 9, 2) << 8;
            let top = bits(half, 8, 1) << 10 | bits(half, 12, 1) << 11;
            Flow::Jump(signed(low | high | top, 12))
        }
        // C.BEQZ and C.BNEZ.
        (0b01, 0b110 | 0b111) => {
            let low = bits(half, 3, 2) << 1 | bits(half, 10, 2) << 3 | bits(half, 2, 1) << 5;
            let high = bits(half, 5, 2) << 6 | bits(half, 12, 1) << 8;
            Flow::Branch(signed(low | high, 9))
        }
        // C.JALR, C.JR and C.EBREAK.
        (0b10, 0b100) if source == 0 => match (bits(half, 12, 1), destination) {
            (0, RA) => Flow::Return,
            (0, _) | (_, 0) => Flow::Leave,
            _ => Flow::Call,
        },
        _ => Flow::Next,
    };
    let frame = match (bits(half, 0, 2), bits(half, 13, 3)) {
        // C.LDSP and C.SDSP.
        (0b10, 0b011) => matches!(destination, RA | S0),
        (0b10, 0b111) => matches!(source, RA | S0),
        // C.ADDI and C.ADDI16SP.
        (0b01, 0b000 | 0b011) => destination == SP,
        // C.ADDI4SPN; its registers are counted from s0.
        (0b00, 0b000) => bits(half, 2, 3) == 0,
        _ => false,
    };
    Some(Instruction { len: 2, flow, nop: half == C_NOP, frame })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows() {
        for (word, len, flow, text) in [
            (0x13_u32, 4, Flow::Next, "nop"),
            (0x0001, 2, Flow::Next, "c.nop"),
            (0x0080_00ef, 4, Flow::Call, "jal ra, 8"),
            (0x0080_006f, 4, Flow::Jump(8), "jal zero, 8"),
            (0xff9f_f06f, 4, Flow::Jump(-8), "jal zero, -8"),
            (0x0005_0463, 4, Flow::Branch(8), "beq a0, zero, 8"),
            (0xfe05_1ee3, 4, Flow::Branch(-4), "bne a0, zero, -4"),
            (0x0000_80e7, 4, Flow::Call, "jalr ra"),
            (0x0000_8067, 4, Flow::Return, "jalr zero, ra"),
            (0x0003_0067, 4, Flow::Leave, "jalr zero, t1"),
            (0x0010_0073, 4, Flow::Leave, "ebreak"),
            (0xa021, 2, Flow::Jump(8), "c.j 8"),
            (0xbfe5, 2, Flow::Jump(-8), "c.j -8"),
            (0xc501, 2, Flow::Branch(8), "c.beqz a0, 8"),
            (0xfd7d, 2, Flow::Branch(-2), "c.bnez a0, -2"),
            (0x8082, 2, Flow::Return, "ret"),
            (0x9002, 2, Flow::Leave, "c.ebreak"),
            (0x9502, 2, Flow::Call, "c.jalr a0"),
            (0x852e, 2, Flow::Next, "c.mv a0, a1"),
        ] {
            let decoded = decode(&word.to_le_bytes()).unwrap();
            let found = (decoded.len, decoded.flow, decoded.nop);
            assert_eq!(found, (len, flow, text.ends_with("nop")), "{text}");
        }
        assert_eq!(decode(&[0, 0]), None);
        assert_eq!(decode(&[0x13]), None);
    }

    #[test]
    fn frames() {
        for (word, frame, text) in [
            (0xe406_u32, true, "sd ra, 8(sp)"),
            (0xe022, true, "sd s0, 0(sp)"),
            (0x0800, true, "addi s0, sp, 16"),
            (0x60a2, true, "ld ra, 8(sp)"),
            (0x6402, true, "ld s0, 0(sp)"),
            (0x7e11_3423, true, "sd ra, 2024(sp)"),
            (0x1141, true, "addi sp, sp, -16"),
            (0x7179, true, "addi sp, sp, -48"),
            (0x1585, false, "addi a1, a1, -31"),
            (0x6585, false, "lui a1, 1"),
            (0xe426, false, "sd s1, 8(sp)"),
            (0x0804, false, "addi s1, sp, 16"),
            (0x7f01_0413, true, "addi s0, sp, 2032"),
        ] {
            assert_eq!(decode(&word.to_le_bytes()).unwrap().frame, frame, "{text}");
        }
    }
}
