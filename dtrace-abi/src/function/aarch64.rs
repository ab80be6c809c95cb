//! aarch64: Arm ARM DDI 0487, C6.2.

mod emulate;

pub use emulate::{Machine, Registers};

/// The length in bytes of every instruction.
pub const LEN: usize = 4;

/// A general register by its number in instructions. Depending on the instruction, 31 is the stack pointer or zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(u8);

impl Register {
    /// The link register.
    pub const LINK: Self = Self(30);
    /// The stack pointer, or zero.
    pub const STACK_OR_ZERO: Self = Self(31);

    /// Returns the register whose number is in the lowest five bits.
    const fn of(bits: u32) -> Self {
        Self((bits & 31) as u8)
    }

    /// Returns the number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The number of bits of a register that an instruction reads and writes. Writing 32 bits clears the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    Word,
    /// 64 bits.
    Double,
}

/// A condition under which an instruction branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The register is zero, or not zero.
    Zero {
        /// The register.
        register: Register,
        /// The number of bits that the instruction tests.
        width: Width,
        /// Whether the branch is taken if the register is zero.
        is_zero: bool,
    },
    /// A bit of the register is set, or clear.
    Bit {
        /// The register.
        register: Register,
        /// The number of the bit.
        bit: u8,
        /// Whether the branch is taken if the bit is set.
        is_set: bool,
    },
}

/// An instruction that can be emulated. The target of a branch is a distance in bytes from the instruction itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `nop`, `bti`, and hints that processors may ignore.
    Nop,
    /// `stp x, x, [sp, #-n]!`: the stack pointer decreases, and then points to the first register.
    StorePair {
        /// The registers.
        registers: [Register; 2],
        /// The number of bytes by which the stack pointer decreases.
        bytes: u16,
    },
    /// `str x, [sp, #-n]!`
    Store {
        /// The register.
        register: Register,
        /// The number of bytes by which the stack pointer decreases.
        bytes: u16,
    },
    /// `add` and `sub` of a constant. Register 31 is the stack pointer.
    Add {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The constant, negative for `sub`.
        value: i32,
        /// The number of bits that are written.
        width: Width,
    },
    /// `cmp` of a register and a constant.
    Compare {
        /// The register; 31 is the stack pointer.
        register: Register,
        /// The constant.
        value: u32,
        /// The number of bits that are compared.
        width: Width,
    },
    /// `mov` between registers. Register 31 is zero.
    Move {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The number of bits that are written.
        width: Width,
    },
    /// `movz` and `movn`: a constant. Register 31 discards it.
    Constant {
        /// The destination.
        to: Register,
        /// The constant.
        value: u64,
    },
    /// `adr` and `adrp`.
    Address {
        /// The destination.
        to: Register,
        /// Whether the distance counts from the beginning of the page of 4096 bytes.
        page: bool,
        /// The distance in bytes.
        distance: i64,
    },
    /// `paciasp` or `pacibsp`.
    Sign {
        /// Whether with key B.
        key_b: bool,
    },
    /// `cbz`, `cbnz`, `tbz`, `tbnz`.
    Branch(Condition, i32),
    /// `b`
    Jump(i32),
    /// `br`, to an address in a register.
    JumpRegister(Register),
    /// `ret`, to the address in a register.
    Return(Register),
}

/// Returns the instruction that a word encodes, if it can be emulated.
pub const fn decode(word: u32) -> Option<Instruction> {
    let register = Register::of(word);
    let second = Register::of(word >> 5);
    let wide = word >> 31 != 0;
    let width = if wide { Width::Double } else { Width::Word };
    if let Some(instruction) = hint(word) {
        return Some(instruction);
    }
    if second.0 == 31 {
        // This bit pattern has a negative immediate: the stack pointer decreases.
        if word & 0xffe0_0000 == 0xa9a0_0000 {
            let registers = [register, Register::of(word >> 10)];
            let bytes = 8 * (64 - (word >> 15 & 63)) as u16;
            return Some(Instruction::StorePair { registers, bytes });
        }
        if word & 0xfff0_0c00 == 0xf810_0c00 {
            let bytes = 256 - (word >> 12 & 255) as u16;
            return Some(Instruction::Store { register, bytes });
        }
    }
    match word & 0x7f80_0000 {
        0x1100_0000 | 0x5100_0000 => {
            let value = shifted(word) as i32;
            let value = if word >> 30 & 1 != 0 { -value } else { value };
            return Some(Instruction::Add { to: register, from: second, value, width });
        }
        0x7100_0000 if register.0 == 31 => {
            return Some(Instruction::Compare { register: second, value: shifted(word), width });
        }
        0x5280_0000 | 0x1280_0000 => return constant(word, register, wide),
        _ => {}
    }
    // `orr` of the zero register.
    if word & 0x7fe0_ffe0 == 0x2a00_03e0 {
        return Some(Instruction::Move { to: register, from: Register::of(word >> 16), width });
    }
    if word & 0x1f00_0000 == 0x1000_0000 {
        let distance = signed((word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3, 21) as i64;
        let distance = if wide { distance << 12 } else { distance };
        return Some(Instruction::Address { to: register, page: wide, distance });
    }
    branch(word)
}

/// The constant of `add` and `sub`.
const fn shifted(word: u32) -> u32 {
    let value = word >> 10 & 0xfff;
    if word >> 22 & 1 != 0 { value << 12 } else { value }
}

/// A number of `bits` bits, sign-extended.
const fn signed(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

const fn hint(word: u32) -> Option<Instruction> {
    Some(match word {
        // `nop`; `bti`, `bti c`, `bti j`, `bti jc`
        0xd503_201f | 0xd503_241f | 0xd503_245f | 0xd503_249f | 0xd503_24df => Instruction::Nop,
        0xd503_233f => Instruction::Sign { key_b: false },
        0xd503_237f => Instruction::Sign { key_b: true },
        _ => return None,
    })
}

/// `movz` and `movn`.
const fn constant(word: u32, to: Register, wide: bool) -> Option<Instruction> {
    let shift = 16 * (word >> 21 & 3);
    if !wide && shift > 16 {
        return None;
    }
    let value = ((word >> 5 & 0xffff) as u64) << shift;
    let value = if word >> 30 & 1 != 0 { value } else { !value };
    let value = if wide { value } else { value & 0xffff_ffff };
    Some(Instruction::Constant { to, value })
}

const fn branch(word: u32) -> Option<Instruction> {
    let register = Register::of(word);
    let second = Register::of(word >> 5);
    if word & 0xfc00_0000 == 0x1400_0000 {
        return Some(Instruction::Jump(signed(word, 26) * 4));
    }
    if word & 0xffff_fc1f == 0xd65f_0000 {
        return Some(Instruction::Return(second));
    }
    if word & 0xffff_fc1f == 0xd61f_0000 {
        return Some(Instruction::JumpRegister(second));
    }
    if word & 0x7e00_0000 == 0x3400_0000 {
        let width = if word >> 31 != 0 { Width::Double } else { Width::Word };
        let condition = Condition::Zero { register, width, is_zero: word >> 24 & 1 == 0 };
        return Some(Instruction::Branch(condition, signed(word >> 5, 19) * 4));
    }
    if word & 0x7e00_0000 == 0x3600_0000 {
        let bit = (word >> 31 << 5 | word >> 19 & 31) as u8;
        let condition = Condition::Bit { register, bit, is_set: word >> 24 & 1 != 0 };
        return Some(Instruction::Branch(condition, signed(word >> 5, 14) * 4));
    }
    None
}
