//! aarch64, by the encoding tables of the Arm ARM, C4.1.

use super::{Flow, Instruction, bits, signed};

const NOP: u32 = 0xd503_201f;

pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let word = u32::from_le_bytes(*code.first_chunk()?);
    let to = |low, count| 4 * signed(bits(word, low, count), count);
    let flow = match () {
        // UDF.
        () if bits(word, 16, 16) == 0 => return None,
        // B.
        () if bits(word, 26, 6) == 0b000101 => Flow::Jump(to(0, 26)),
        // B.cond and BC.cond.
        () if bits(word, 25, 7) == 0b0101010 => Flow::Branch(to(5, 19)),
        // CBZ and CBNZ; TBZ and TBNZ.
        () if bits(word, 25, 6) == 0b011010 => Flow::Branch(to(5, 19)),
        () if bits(word, 25, 6) == 0b011011 => Flow::Branch(to(5, 14)),
        // BR, RET and their like, not BLR.
        () if bits(word, 25, 7) == 0b1101011 && bits(word, 21, 2) != 0b01 => Flow::Leave,
        // BRK.
        () if bits(word, 21, 11) == 0b11010100001 => Flow::Leave,
        () => Flow::Next,
    };
    Some(Instruction { len: 4, flow, nop: word == NOP })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows() {
        for (word, flow, text) in [
            (0xd503_201f_u32, Flow::Next, "nop"),
            (0x9400_0004, Flow::Next, "bl #16"),
            (0xd63f_0100, Flow::Next, "blr x8"),
            (0xaa00_03f2, Flow::Next, "mov x18, x0"),
            (0x1400_0002, Flow::Jump(8), "b #8"),
            (0x17ff_ffed, Flow::Jump(-76), "b #-76"),
            (0x5400_0041, Flow::Branch(8), "b.ne #8"),
            (0xb400_0052, Flow::Branch(8), "cbz x18, #8"),
            (0x35ff_ffe0, Flow::Branch(-4), "cbnz w0, #-4"),
            (0x3608_0052, Flow::Branch(8), "tbz w18, #1, #8"),
            (0xb70f_ffe0, Flow::Branch(-4), "tbnz x0, #33, #-4"),
            (0xd65f_03c0, Flow::Leave, "ret"),
            (0xd61f_0100, Flow::Leave, "br x8"),
            (0xd420_0020, Flow::Leave, "brk #1"),
        ] {
            let decoded = decode(&word.to_le_bytes()).unwrap();
            assert_eq!((decoded.flow, decoded.nop), (flow, text == "nop"), "{text}");
        }
        assert_eq!(decode(&[1, 0, 0, 0]), None);
    }
}
