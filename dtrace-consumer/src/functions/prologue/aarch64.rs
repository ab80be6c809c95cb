//! aarch64: the instructions with which unoptimised code makes its frame and stores its arguments (Arm ARM DDI 0487, C4.1).

use super::{MOST, Prologue, Value};

/// `x0` to `x7`.
pub(super) const ARGUMENTS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

const FRAME: u32 = 29;
const STACK: u32 = 31;

/// Follows the first instructions.
pub(super) fn follow(state: &mut Prologue, text: &[u8]) {
    let words = text.as_chunks::<4>().0.iter().take(MOST);
    for word in words.map(|word| u32::from_le_bytes(*word)) {
        if !known(state, word) {
            return;
        }
    }
}

/// Returns the value in a register; register 31 is zero.
fn value(state: &Prologue, register: u32) -> Option<Value> {
    (register < 31).then(|| state.registers[register as usize]).flatten()
}

/// Returns the address in a base register.
fn base(state: &Prologue, register: u32) -> Option<i64> {
    match register {
        STACK => state.stack,
        FRAME => state.frame,
        _ => None,
    }
}

/// Sets a register that an instruction writes. Returns `false` if it is the stack pointer.
fn write(state: &mut Prologue, register: u32, value: Option<Value>) -> bool {
    match register {
        FRAME => state.frame = None,
        _ => state.set(register as usize, value),
    }
    register != STACK
}

/// Performs an instruction. Returns whether it is known.
fn known(state: &mut Prologue, word: u32) -> bool {
    let (to, from) = (word & 31, word >> 5 & 31);
    let second = word >> 10 & 31;
    match word {
        // `nop`, `bti` and other hints.
        _ if word & 0xffff_f01f == 0xd503_201f => true,
        // `add` and `sub` of a constant, 64 bits, without flags.
        _ if word & 0xbf80_0000 == 0x9100_0000 => {
            let shift = if word & 1 << 22 == 0 { 0 } else { 12 };
            let constant = i64::from(word >> 10 & 0xfff) << shift;
            let by = if word & 1 << 30 == 0 { constant } else { -constant };
            let result = base(state, from).and_then(|base| base.checked_add(by));
            match to {
                STACK => state.move_stack(result),
                FRAME => state.frame = result,
                _ => state.set(to as usize, None),
            }
            true
        }
        // `stp` of 64 bits with an offset, and with a new base before the access.
        _ if word & 0xff40_0000 == 0xa900_0000 && matches!(word >> 23 & 3, 2 | 3) => {
            let distance = i64::from((word << 10) as i32 >> 25) * 8;
            let Some(address) = base(state, from).and_then(|base| base.checked_add(distance))
            else {
                return false;
            };
            if word >> 23 & 3 == 3 {
                match from {
                    STACK => state.move_stack(Some(address)),
                    _ => return false,
                }
            }
            let values = [value(state, to), value(state, second)];
            state.store(address, 8, values[0]);
            state.store(address + 8, 8, values[1]);
            true
        }
        // `str`, `strh`, `strb` with an unsigned offset.
        _ if word & 0x3fc0_0000 == 0x3900_0000 => {
            let size = word >> 30;
            let distance = i64::from(word >> 10 & 0xfff) << size;
            store(state, to, from, distance, 1 << size)
        }
        // `stur`, `sturh`, `sturb`
        _ if word & 0x3fe0_0c00 == 0x3800_0000 => {
            let distance = i64::from((word << 11) as i32 >> 23);
            store(state, to, from, distance, 1 << (word >> 30))
        }
        // `ldr`, `ldrh`, `ldrb` with an unsigned offset.
        _ if word & 0x3fc0_0000 == 0x3940_0000 => {
            let size = word >> 30;
            let distance = i64::from(word >> 10 & 0xfff) << size;
            let address = base(state, from).and_then(|base| base.checked_add(distance));
            let loaded = address.and_then(|address| state.load(address, 1 << size));
            write(state, to, loaded)
        }
        // `mov` between registers: `orr` with register 31.
        _ if word & 0x7fe0_ffe0 == 0x2a00_03e0 => {
            let size = if word >> 31 == 0 { 4 } else { 8 };
            let source = value(state, word >> 16 & 31);
            let copied = source.map(|of| Value { bytes: of.bytes.min(size), ..of });
            write(state, to, copied)
        }
        // `and w, w, #1`
        _ if word & 0xffff_fc00 == 0x1200_0000 => {
            let bit = value(state, from).map(|of| Value { bytes: 1, is_bit: true, ..of });
            write(state, to, bit)
        }
        // Other operations of constants, and of registers; not those whose destination can be the stack pointer.
        _ if word & 0x1f80_0000 == 0x1280_0000 || word & 0x1f00_0000 == 0x1300_0000 => {
            write(state, to, None)
        }
        _ if word & 0x1f00_0000 == 0x0a00_0000 || word & 0x1f20_0000 == 0x0b00_0000 => {
            to == 31 || write(state, to, None)
        }
        _ => false,
    }
}

/// Stores a register in the frame. Returns `false` if the address is not in the frame.
fn store(state: &mut Prologue, register: u32, to: u32, distance: i64, size: u64) -> bool {
    let Some(address) = base(state, to).and_then(|base| base.checked_add(distance)) else {
        return false;
    };
    state.store(address, size, value(state, register));
    true
}

#[cfg(test)]
mod tests {
    use super::super::super::function::Architecture;
    use crate::signature::Frame;

    use super::*;

    fn of(code: &[u32]) -> Prologue {
        let text: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        Prologue::follow(Architecture::Aarch64, &text)
    }

    #[test]
    fn stores_of_arguments_are_found() {
        let state = of(&[
            0xd101_03ff, // sub sp, sp, #0x40
            0xa903_7bfd, // stp x29, x30, [sp, #0x30]
            0x9100_c3fd, // add x29, sp, #0x30
            0xf900_07e0, // str x0, [sp, #8]
            0xb900_13e1, // str w1, [sp, #0x10]
            0x1200_0048, // and w8, w2, #1
            0x3900_57e8, // strb w8, [sp, #0x15]
            0xf81f_83a3, // stur x3, [x29, #-8]
            0x9400_0000, // bl
            0xf900_0fe4, // str x4, [sp, #0x18]
        ]);
        let base = state.address(Frame::Register(31, 0)).unwrap();
        assert_eq!(base, -0x40);
        assert_eq!(state.address(Frame::Register(29, 0)), Some(-0x10));
        for (slot, size, is_bool, argument) in [
            (8, 8, false, Some(0)),
            (0x10, 4, false, Some(1)),
            (0x15, 1, true, Some(2)),
            (0x15, 1, false, None),
            (0x28, 8, false, Some(3)),
            // Behind the call, and the saved registers.
            (0x18, 8, false, None),
            (0x30, 8, false, None),
        ] {
            assert_eq!(state.stored(base + slot, size, is_bool), argument, "{slot:#x}");
        }
    }

    #[test]
    fn changed_registers_are_no_arguments() {
        // add x0, x0, #1; str x0, [sp, #8]
        let state = of(&[0xd101_03ff, 0x9100_0400, 0xf900_07e0]);
        assert_eq!(state.stored(-0x38, 8, false), None);
        // A store to unknown memory ends the search: str x1, [x2]; str x0, [sp, #8].
        let state = of(&[0xd101_03ff, 0xf900_0041, 0xf900_07e0]);
        assert_eq!(state.stored(-0x38, 8, false), None);
    }
}
