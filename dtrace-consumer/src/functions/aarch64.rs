//! aarch64: all instructions have 4 bytes, and few of them change the flow of control (Arm ARM DDI 0487, C4.1.66).

use dtrace_abi::function::aarch64::{self, Instruction as Known};

use super::instruction::{Flow, Instruction};

/// The number of instructions before an indirect jump that are searched for the load of its target from a table.
const NEAR: usize = 4;

/// Decodes the instructions of a function. `Err` has the offset of bytes that are no instruction: a size that is not a multiple
/// of 4, or `udf`, which fills gaps.
pub(super) fn decode(address: u64, text: &[u8]) -> Result<Vec<Instruction>, usize> {
    let (words, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(words.len() * 4);
    }
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let instruction = |index: usize| {
        let address = address + 4 * index as u64;
        let before = &words[index.saturating_sub(NEAR)..index];
        Instruction { address, length: 4, flow: flow(address, words[index], before) }
    };
    Ok((0..words.len()).map(instruction).collect())
}

fn flow(address: u64, word: u32, before: &[u32]) -> Flow {
    let to = |distance: i32| address.wrapping_add_signed(distance.into());
    match aarch64::decode(word) {
        Some(Known::Jump(distance)) => return Flow::Jump(to(distance)),
        Some(Known::Branch(_, distance)) => return Flow::Branch(to(distance)),
        Some(Known::Return(_)) => return Flow::Return,
        Some(Known::JumpRegister(register)) => {
            // `ldrb`, `ldrh` or `ldrsw` with an index, then `add`: a table of distances.
            let number = u32::from(register.number());
            let adds = |word: &u32| word & 0xff00_001f == 0x8b00_0000 | number;
            let loads = |word: &u32| word & 0x3f20_0c00 == 0x3820_0800;
            let is_table = before.iter().any(adds) && before.iter().any(loads);
            let from_memory = before.iter().any(|word| {
                // `ldr x, [x, #n]`, `mov`.
                word & 0xffc0_001f == 0xf940_0000 | number
                    || word & 0xffe0_ffff == 0xaa00_03e0 | number
            });
            return match (is_table, from_memory) {
                (true, _) => Flow::Table,
                (false, true) => Flow::TailCall,
                (false, false) => Flow::Indirect,
            };
        }
        _ => {}
    }
    match word {
        // `b.cond`
        _ if word & 0xff00_0000 == 0x5400_0000 => Flow::Branch(to(((word << 8) as i32 >> 13) * 4)),
        // `bl`
        _ if word & 0xfc00_0000 == 0x9400_0000 => {
            Flow::Call(Some(to(((word << 6) as i32 >> 6) * 4)))
        }
        // `blr` and its authenticated forms
        _ if word & 0xfe9f_f000 == 0xd61f_0000 && word >> 21 & 3 == 1 => Flow::Call(None),
        // `retaa`, `retab`
        0xd65f_0bff | 0xd65f_0fff => Flow::Return,
        // `braa` and others: authenticated indirect jumps; `eret`
        _ if word & 0xfe9f_f000 == 0xd61f_0000 && word >> 21 & 3 == 0 => Flow::Indirect,
        0xd69f_03e0 => Flow::Stop,
        // `brk`, `udf`
        _ if word & 0xffe0_001f == 0xd420_0000 || word >> 16 == 0 => Flow::Stop,
        _ => Flow::Next,
    }
}

/// Returns whether an instruction changes neither an argument register, nor the stack, nor memory: loads and operations whose
/// results are in x9 to x17 or are flags. x8 can be the address of the result.
pub(super) fn keeps_arguments(code: &[u8]) -> bool {
    let Some(word) = code.first_chunk().map(|code| u32::from_le_bytes(*code)) else { return false };
    let is_scratch = |bits: u32| matches!(bits & 31, 9..=17);
    let to = word;
    match word {
        // `ldr`, `ldrb`, `ldrh`, `ldrsw` of general registers with an unsigned offset; not `prfm`.
        _ if word & 0x3f00_0000 == 0x3900_0000 => word >> 22 & 3 != 0 && is_scratch(to),
        // `ldp` with an offset
        _ if word & 0x7fc0_0000 == 0x2940_0000 => is_scratch(to) && is_scratch(word >> 10),
        // `cmp`, `ccmp` do not have a result; `cmp` of registers is `subs` to zero.
        _ if word & 0x7fa0_001f == 0x6b00_001f || word & 0x7fe0_001f == 0x6b20_001f => true,
        // Operations of registers and of constants, except conditional compares.
        _ if word & 0x0e00_0000 == 0x0a00_0000 || word & 0x1c00_0000 == 0x1000_0000 => {
            is_scratch(to)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_kept() {
        for (word, keeps) in [
            (0xf940_0009_u32, true), // ldr x9, [x0]
            (0xf940_0001, false),    // ldr x1, [x0]
            (0xf900_0009, false),    // str x9, [x0]
            (0xa940_240a, true),     // ldp x10, x9, [x0]
            (0xa940_2401, false),    // ldp x1, x9, [x0]
            (0xeb01_005f, true),     // cmp x2, x1
            (0xa9bf_7bfd, false),    // stp x29, x30, [sp, #-16]!
        ] {
            assert_eq!(keeps_arguments(&word.to_le_bytes()), keeps, "{word:08x}");
        }
    }

    #[test]
    fn flows() {
        for (word, expected) in [
            (0xd503_201f, Flow::Next),
            (0xa9bf_7bfd, Flow::Next),
            (0xd65f_03c0, Flow::Return),
            (0xd65f_0bff, Flow::Return),
            (0x1400_0002, Flow::Jump(0x1008)),
            (0x17ff_ffff, Flow::Jump(0xffc)),
            (0x9400_0001, Flow::Call(Some(0x1004))),
            (0xd63f_0100, Flow::Call(None)),
            // b.eq, b.ne backwards
            (0x5400_0040, Flow::Branch(0x1008)),
            (0x54ff_ffe1, Flow::Branch(0xffc)),
            // cbz x0, tbnz w0, #3
            (0xb400_0040, Flow::Branch(0x1008)),
            (0x3718_0040, Flow::Branch(0x1008)),
            (0xd420_0020, Flow::Stop),
            (0xd61f_0020, Flow::Indirect),
            (0xd61f_0820, Flow::Indirect),
        ] {
            assert_eq!(flow(0x1000, word, &[]), expected, "{word:08x}");
        }
        // ldr x1, [x8, #24]; br x1
        assert_eq!(flow(0x1000, 0xd61f_0020, &[0xf940_0d01]), Flow::TailCall);
        // ldrsw x10, [x9, x8, lsl #2]; add x9, x9, x10; br x9
        assert_eq!(flow(0x1000, 0xd61f_0120, &[0xb8a8_792a, 0x8b0a_0129]), Flow::Table);
    }
}
