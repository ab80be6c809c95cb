//! riscv64, by the instruction formats of the RISC-V unprivileged specification.

use super::{Flow, Instruction, bits, signed};

const NOP: u32 = 0x13;
const C_NOP: u32 = 1;
const EBREAK: u32 = 0x0010_0073;

pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let half = u32::from(u16::from_le_bytes(*code.first_chunk()?));
    if half & 0b11 != 0b11 {
        return compressed(half);
    }
    let word = u32::from_le_bytes(*code.first_chunk()?);
    let keeps_return = bits(word, 7, 5) != 0;
    let flow = match bits(word, 0, 7) {
        // JAL.
        0x6f if keeps_return => Flow::Next,
        0x6f => {
            let low = bits(word, 21, 10) << 1 | bits(word, 20, 1) << 11 | bits(word, 12, 8) << 12;
            Flow::Jump(signed(low | bits(word, 31, 1) << 20, 21))
        }
        // JALR.
        0x67 if keeps_return => Flow::Next,
        0x67 => Flow::Leave,
        // BEQ and its like.
        0x63 => {
            let low = bits(word, 8, 4) << 1 | bits(word, 25, 6) << 5 | bits(word, 7, 1) << 11;
            Flow::Branch(signed(low | bits(word, 31, 1) << 12, 13))
        }
        _ if word == EBREAK => Flow::Leave,
        _ => Flow::Next,
    };
    Some(Instruction { len: 4, flow, nop: word == NOP })
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
        // C.JR, and C.EBREAK; C.JALR is a call.
        (0b10, 0b100) if source == 0 && (bits(half, 12, 1) == 0 || destination == 0) => Flow::Leave,
        _ => Flow::Next,
    };
    Some(Instruction { len: 2, flow, nop: half == C_NOP })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows() {
        for (word, len, flow, text) in [
            (0x13_u32, 4, Flow::Next, "nop"),
            (0x0001, 2, Flow::Next, "c.nop"),
            (0x0080_00ef, 4, Flow::Next, "jal ra, 8"),
            (0x0080_006f, 4, Flow::Jump(8), "jal zero, 8"),
            (0xff9f_f06f, 4, Flow::Jump(-8), "jal zero, -8"),
            (0x0005_0463, 4, Flow::Branch(8), "beq a0, zero, 8"),
            (0xfe05_1ee3, 4, Flow::Branch(-4), "bne a0, zero, -4"),
            (0x0000_80e7, 4, Flow::Next, "jalr ra"),
            (0x0003_0067, 4, Flow::Leave, "jalr zero, t1"),
            (0x0010_0073, 4, Flow::Leave, "ebreak"),
            (0xa021, 2, Flow::Jump(8), "c.j 8"),
            (0xbfe5, 2, Flow::Jump(-8), "c.j -8"),
            (0xc501, 2, Flow::Branch(8), "c.beqz a0, 8"),
            (0xfd7d, 2, Flow::Branch(-2), "c.bnez a0, -2"),
            (0x8082, 2, Flow::Leave, "ret"),
            (0x9002, 2, Flow::Leave, "c.ebreak"),
            (0x9502, 2, Flow::Next, "c.jalr a0"),
            (0x852e, 2, Flow::Next, "c.mv a0, a1"),
        ] {
            let decoded = decode(&word.to_le_bytes()).unwrap();
            let found = (decoded.len, decoded.flow, decoded.nop);
            assert_eq!(found, (len, flow, text.ends_with("nop")), "{text}");
        }
        assert_eq!(decode(&[0, 0]), None);
        assert_eq!(decode(&[0x13]), None);
    }
}
