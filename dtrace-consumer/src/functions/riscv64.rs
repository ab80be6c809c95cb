//! riscv64: the first halfword gives the length of an instruction, and few instructions change the flow of control.

use dtrace_abi::function::riscv64::{self, Instruction as Known, Register};

use super::instruction::{Flow, Instruction};

/// The number of instructions before an indirect jump that are searched for the load of its target from a table.
const NEAR: usize = 4;

/// Decodes the instructions of a function. `Err` has the offset of the first bytes that are no instruction.
pub(super) fn decode(address: u64, text: &[u8]) -> Result<Vec<Instruction>, usize> {
    let (mut found, mut codes): (Vec<Instruction>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    let mut offset = 0;
    while offset < text.len() {
        let rest = &text[offset..];
        let first = rest.first_chunk().map(|half| u16::from_le_bytes(*half)).ok_or(offset)?;
        let length = usize::from(riscv64::length(first).ok_or(offset)?);
        let code = rest.get(..length).ok_or(offset)?;
        let at = address + offset as u64;
        let before = &codes[codes.len().saturating_sub(NEAR)..];
        found.push(Instruction { address: at, length, flow: flow(at, code, before) });
        codes.push(code);
        offset += length;
    }
    Ok(found)
}

fn flow(address: u64, code: &[u8], before: &[&[u8]]) -> Flow {
    let to = |distance: i32| address.wrapping_add_signed(distance.into());
    // `c.jalr`; with register 0 it is `c.ebreak`. `ebreak`; all zeros.
    match *code {
        [0x02, 0x90] | [0, 0] | [0x73, 0x00, 0x10, 0x00] => return Flow::Stop,
        [low, high] if low & 0x7f == 0x02 && high & 0xf0 == 0x90 => return Flow::Call(None),
        _ => {}
    }
    let Some(decoded) = riscv64::decode(code) else { return Flow::Next };
    match decoded.instruction {
        Known::Branch { distance, .. } => Flow::Branch(to(distance)),
        Known::Jump { link: Register::ZERO, distance } => Flow::Jump(to(distance)),
        Known::Jump { distance, .. } => Flow::Call(Some(to(distance))),
        Known::JumpRegister { link: Register::ZERO, to: Register::RA, .. } => Flow::Return,
        Known::JumpRegister { link: Register::ZERO, to: target, offset } => {
            indirect(address, target, offset, before)
        }
        Known::JumpRegister { to: target, offset, .. } => {
            Flow::Call(far(address, target, offset, before))
        }
        _ => Flow::Next,
    }
}

/// Returns the target of a pair of `auipc` and `jalr`; `address` is the address of the `jalr`.
fn far(address: u64, target: Register, offset: i32, before: &[&[u8]]) -> Option<u64> {
    let last = before.last()?;
    match riscv64::decode(last)?.instruction {
        Known::Address { to, distance } if to == target => {
            let from = address.wrapping_sub(last.len() as u64);
            Some(from.wrapping_add_signed(distance.into()).wrapping_add_signed(offset.into()))
        }
        _ => None,
    }
}

/// Returns the effect of an indirect jump.
fn indirect(address: u64, target: Register, offset: i32, before: &[&[u8]]) -> Flow {
    if let Some(target) = far(address, target, offset, before) {
        return Flow::Jump(target);
    }
    let number = target.number();
    // `ld rd, n(rs)`, in both lengths; `c.add` and `add`.
    let loads = |code: &&[u8]| match **code {
        [a, b, _, _] => a & 0x7f == 0x03 && b >> 4 & 7 == 3 && rd(a, b) == number,
        [a, b] => a & 3 == 0 && b >> 5 == 3 && (a >> 2 & 7) + 8 == number,
        _ => false,
    };
    let adds = |code: &&[u8]| match **code {
        [a, b, c, d] => a & 0x7f == 0x33 && rd(a, b) == number && b & 0x70 == 0 && c | d != 0,
        [a, b] => a & 3 == 2 && b & 0xf0 == 0x90 && rd(a, b) == number,
        _ => false,
    };
    let moves = |code: &&[u8]| {
        matches!(riscv64::decode(code).map(|of| of.instruction),
            Some(Known::Add { to, value: 0, .. }) if to == target)
    };
    if before.iter().any(adds) {
        Flow::Table
    } else if before.iter().any(|code| loads(code) || moves(code)) {
        Flow::TailCall
    } else {
        Flow::Indirect
    }
}

/// The destination register of an instruction with these first two bytes.
const fn rd(first: u8, second: u8) -> u8 {
    first >> 7 | (second & 15) << 1
}

/// Returns whether an instruction changes neither an argument register, nor the stack, nor memory: loads and operations whose
/// results are in t0 to t6.
pub(super) fn keeps_arguments(code: &[u8]) -> bool {
    match *code {
        [a, b, ..] if code.len() == 4 => {
            matches!(a & 0x7f, 0x03 | 0x13 | 0x1b | 0x33 | 0x3b | 0x17 | 0x37)
                && matches!(rd(a, b), 5..=7 | 28..=31)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_kept() {
        for (code, keeps) in [
            ([0x83, 0x32, 0x05, 0x00], true),  // ld t0, 0(a0)
            ([0x83, 0x35, 0x05, 0x00], false), // ld a1, 0(a0)
            ([0x23, 0x30, 0x55, 0x00], false), // sd t0, 0(a0)
        ] {
            assert_eq!(keeps_arguments(&code), keeps, "{code:02x?}");
        }
    }

    fn last(code: &[u8]) -> Flow {
        decode(0x1000, code).unwrap().last().unwrap().flow
    }

    #[test]
    fn flows() {
        for (code, expected) in [
            (&[0x01, 0x11][..], Flow::Next),                 // c.addi sp, -32
            (&[0x82, 0x80], Flow::Return),                   // ret
            (&[0x67, 0x80, 0x00, 0x00], Flow::Return),       // jalr x0, 0(ra)
            (&[0x01, 0xa0], Flow::Jump(0x1000)),             // c.j .
            (&[0x6f, 0x00, 0x80, 0x00], Flow::Jump(0x1008)), // j .+8
            (&[0xef, 0x00, 0x80, 0x00], Flow::Call(Some(0x1008))), // jal .+8
            (&[0x82, 0x95], Flow::Call(None)),               // c.jalr a1
            (&[0x02, 0x90], Flow::Stop),                     // c.ebreak
            (&[0x73, 0x00, 0x10, 0x00], Flow::Stop),         // ebreak
            (&[0x82, 0x85], Flow::Indirect),                 // c.jr a1
            // ld a1, 24(a1) (c.ld); c.jr a1
            (&[0x8c, 0x6d, 0x82, 0x85], Flow::TailCall),
            // add a0, a0, a1 (c.add); c.jr a0
            (&[0x2e, 0x95, 0x02, 0x85], Flow::Table),
            // auipc t1, 0; jalr x0, 12(t1)
            (&[0x17, 0x03, 0, 0, 0x67, 0x00, 0xc3, 0x00], Flow::Jump(0x100c)),
        ] {
            assert_eq!(last(code), expected, "{code:02x?}");
        }
        assert_eq!(decode(0x1000, &[0x01, 0x11, 0x82]).unwrap_err(), 2);
    }
}
