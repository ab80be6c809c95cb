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
        // BL.
        () if bits(word, 26, 6) == 0b100101 => Flow::Call,
        // BLR, RET, BR and their like.
        () if bits(word, 25, 7) == 0b1101011 => match bits(word, 21, 2) {
            0b01 => Flow::Call,
            0b10 => Flow::Return,
            _ => Flow::Leave,
        },
        // BRK.
        () if bits(word, 21, 11) == 0b11010100001 => Flow::Leave,
        () => Flow::Next,
    };
    Some(Instruction { len: 4, flow, nop: word == NOP, frame: is_frame(word) })
}

/// `stp x29, x30, [sp ...]`, `ldp x29, x30, [sp ...]`, and `add x29, sp, #n`, which is `mov` too.
const fn is_frame(word: u32) -> bool {
    let registers = [bits(word, 0, 5), bits(word, 5, 5), bits(word, 10, 5)];
    // LDP and STP of two 64-bit registers. Bits 23 and 24 contain the form; bit 22 distinguishes load from store.
    let pair = bits(word, 25, 7) == 0b101_0100 && matches!(registers, [29, 31, 30]);
    let add = bits(word, 22, 10) == 0b10_0100_0100 && matches!(registers, [29, 31, _]);
    pair || add
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows() {
        for (word, flow, text) in [
            (0xd503_201f_u32, Flow::Next, "nop"),
            (0x9400_0004, Flow::Call, "bl #16"),
            (0xd63f_0100, Flow::Call, "blr x8"),
            (0xaa00_03f2, Flow::Next, "mov x18, x0"),
            (0x1400_0002, Flow::Jump(8), "b #8"),
            (0x17ff_ffed, Flow::Jump(-76), "b #-76"),
            (0x5400_0041, Flow::Branch(8), "b.ne #8"),
            (0xb400_0052, Flow::Branch(8), "cbz x18, #8"),
            (0x35ff_ffe0, Flow::Branch(-4), "cbnz w0, #-4"),
            (0x3608_0052, Flow::Branch(8), "tbz w18, #1, #8"),
            (0xb70f_ffe0, Flow::Branch(-4), "tbnz x0, #33, #-4"),
            (0xd65f_03c0, Flow::Return, "ret"),
            (0xd61f_0100, Flow::Leave, "br x8"),
            (0xd420_0020, Flow::Leave, "brk #1"),
        ] {
            let decoded = decode(&word.to_le_bytes()).unwrap();
            assert_eq!((decoded.flow, decoded.nop), (flow, text == "nop"), "{text}");
        }
        assert_eq!(decode(&[1, 0, 0, 0]), None);
    }

    #[test]
    fn frames() {
        for (word, frame, text) in [
            (0xa9bf_7bfd_u32, true, "stp x29, x30, [sp, #-16]!"),
            (0xa901_7bfd, true, "stp x29, x30, [sp, #16]"),
            (0xa8c1_7bfd, true, "ldp x29, x30, [sp], #16"),
            (0xa941_7bfd, true, "ldp x29, x30, [sp, #16]"),
            (0x9100_03fd, true, "mov x29, sp"),
            (0x9100_43fd, true, "add x29, sp, #16"),
            (0xa9bf_4ff4, false, "stp x20, x19, [sp, #-16]!"),
            (0x9100_03bf, false, "mov sp, x29"),
            (0xd100_83ff, false, "sub sp, sp, #32"),
            (0xad00_7bfd, false, "stp q29, q30, [sp]"),
        ] {
            assert_eq!(decode(&word.to_le_bytes()).unwrap().frame, frame, "{text}");
        }
    }
}
