//! riscv64: the RISC-V Instruction Set Manual, volume I, RV64I and the C extension.

mod emulate;

pub use emulate::Registers;

/// A general register by its number. Register 0 is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(u8);

impl Register {
    /// The register that is always 0.
    pub const ZERO: Self = Self(0);
    /// The return address.
    pub const RA: Self = Self(1);
    /// The stack pointer.
    pub const SP: Self = Self(2);

    /// The register whose number is in the lowest five bits.
    const fn of(bits: u32) -> Self {
        Self((bits & 31) as u8)
    }

    /// The register, of x8 to x15, whose number is in the lowest three bits.
    const fn short(bits: u32) -> Self {
        Self((bits & 7) as u8 + 8)
    }

    /// Returns the number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A condition under which an instruction branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less, signed.
    Less,
    /// Greater or equal, signed.
    GreaterOrEqual,
    /// Less, unsigned.
    Below,
    /// Greater or equal, unsigned.
    AboveOrEqual,
}

/// An instruction that can be emulated. The target of a branch is a distance in bytes from the instruction itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `addi`: also `nop`, `mv` and `li`.
    Add {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The constant.
        value: i32,
    },
    /// `addiw`: `addi` of the low 32 bits, sign-extended.
    AddWord {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The constant.
        value: i32,
    },
    /// `andi`
    And {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The constant.
        value: i32,
    },
    /// `slli`
    ShiftLeft {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The number of bits to shift by.
        by: u8,
    },
    /// `srli`
    ShiftRight {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The number of bits to shift by.
        by: u8,
    },
    /// `lui`
    Upper {
        /// The destination.
        to: Register,
        /// The constant.
        value: i32,
    },
    /// `auipc`
    Address {
        /// The destination.
        to: Register,
        /// The distance in bytes.
        distance: i32,
    },
    /// A conditional branch.
    Branch {
        /// The condition under which it jumps.
        condition: Condition,
        /// The registers that are compared.
        registers: [Register; 2],
        /// The distance to the target.
        distance: i32,
    },
    /// `jal`
    Jump {
        /// Receives the address of the next instruction.
        link: Register,
        /// The distance to the target.
        distance: i32,
    },
    /// `jalr`: also `ret`.
    JumpRegister {
        /// Receives the address of the next instruction.
        link: Register,
        /// The register with the target.
        to: Register,
        /// A constant that is added to the register.
        offset: i32,
    },
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decoded {
    /// The instruction.
    pub instruction: Instruction,
    /// Its length in bytes: 2 or 4.
    pub length: u8,
}

/// Returns the length in bytes of the instruction that begins with this halfword, if it is 2 or 4.
pub const fn length(first: u16) -> Option<u8> {
    match first & 0x1f {
        bits if bits & 3 != 3 => Some(2),
        bits if bits & 0x1c != 0x1c => Some(4),
        _ => None,
    }
}

/// Returns the instruction at the beginning of these bytes, if it can be emulated.
pub fn decode(bytes: &[u8]) -> Option<Decoded> {
    let half = u16::from_le_bytes(*bytes.first_chunk()?);
    let length = length(half)?;
    let instruction = match length {
        2 => compressed(half.into())?,
        _ => full(u32::from_le_bytes(*bytes.first_chunk()?))?,
    };
    Some(Decoded { instruction, length })
}

/// A number of `bits` bits, sign-extended.
const fn signed(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

const fn full(word: u32) -> Option<Instruction> {
    let to = Register::of(word >> 7);
    let from = Register::of(word >> 15);
    let value = word as i32 >> 20;
    Some(match (word & 0x7f, word >> 12 & 7) {
        (0x13, 0) => Instruction::Add { to, from, value },
        (0x13, 7) => Instruction::And { to, from, value },
        (0x13, 1) if word >> 26 == 0 => {
            Instruction::ShiftLeft { to, from, by: (word >> 20 & 63) as u8 }
        }
        (0x13, 5) if word >> 26 == 0 => {
            Instruction::ShiftRight { to, from, by: (word >> 20 & 63) as u8 }
        }
        (0x1b, 0) => Instruction::AddWord { to, from, value },
        (0x37, _) => Instruction::Upper { to, value: (word & 0xffff_f000) as i32 },
        (0x17, _) => Instruction::Address { to, distance: (word & 0xffff_f000) as i32 },
        (0x63, which) => {
            let condition = match which {
                0 => Condition::Equal,
                1 => Condition::NotEqual,
                4 => Condition::Less,
                5 => Condition::GreaterOrEqual,
                6 => Condition::Below,
                7 => Condition::AboveOrEqual,
                _ => return None,
            };
            let distance = (word >> 31) << 12
                | (word >> 7 & 1) << 11
                | (word >> 25 & 0x3f) << 5
                | (word >> 8 & 0xf) << 1;
            let registers = [from, Register::of(word >> 20)];
            Instruction::Branch { condition, registers, distance: signed(distance, 13) }
        }
        (0x6f, _) => {
            let distance = (word >> 31) << 20
                | (word >> 12 & 0xff) << 12
                | (word >> 20 & 1) << 11
                | (word >> 21 & 0x3ff) << 1;
            Instruction::Jump { link: to, distance: signed(distance, 21) }
        }
        (0x67, 0) => Instruction::JumpRegister { link: to, to: from, offset: value },
        _ => return None,
    })
}

const fn compressed(half: u32) -> Option<Instruction> {
    let register = Register::of(half >> 7);
    let second = Register::of(half >> 2);
    // The constant of `c.addi` and others.
    let value = signed((half >> 12 & 1) << 5 | half >> 2 & 31, 6);
    let by = ((half >> 12 & 1) << 5 | half >> 2 & 31) as u8;
    Some(match (half & 3, half >> 13) {
        // `c.addi4spn`; all zeros are invalid.
        (0, 0) => {
            let offset = (half >> 11 & 3) << 4
                | (half >> 7 & 15) << 6
                | (half >> 6 & 1) << 2
                | (half >> 5 & 1) << 3;
            if offset == 0 {
                return None;
            }
            let to = Register::short(half >> 2);
            Instruction::Add { to, from: Register::SP, value: offset as i32 }
        }
        // `c.addi`, `c.nop`
        (1, 0) => Instruction::Add { to: register, from: register, value },
        // `c.addiw`
        (1, 1) if register.0 != 0 => Instruction::AddWord { to: register, from: register, value },
        // `c.li`
        (1, 2) => Instruction::Add { to: register, from: Register::ZERO, value },
        // `c.addi16sp`
        (1, 3) if register.0 == 2 => {
            let offset = (half >> 12 & 1) << 9
                | (half >> 3 & 3) << 7
                | (half >> 5 & 1) << 6
                | (half >> 2 & 1) << 5
                | (half >> 6 & 1) << 4;
            if offset == 0 {
                return None;
            }
            Instruction::Add { to: register, from: register, value: signed(offset, 10) }
        }
        // `c.lui`
        (1, 3) if value != 0 => Instruction::Upper { to: register, value: value << 12 },
        // `c.srli`, `c.andi`
        (1, 4) => {
            let register = Register::short(half >> 7);
            match half >> 10 & 3 {
                0 => Instruction::ShiftRight { to: register, from: register, by },
                2 => Instruction::And { to: register, from: register, value },
                _ => return None,
            }
        }
        // `c.j`
        (1, 5) => {
            let distance = (half >> 12 & 1) << 11
                | (half >> 8 & 1) << 10
                | (half >> 9 & 3) << 8
                | (half >> 6 & 1) << 7
                | (half >> 7 & 1) << 6
                | (half >> 2 & 1) << 5
                | (half >> 11 & 1) << 4
                | (half >> 3 & 7) << 1;
            Instruction::Jump { link: Register::ZERO, distance: signed(distance, 12) }
        }
        // `c.beqz`, `c.bnez`
        (1, which @ (6 | 7)) => {
            let distance = (half >> 12 & 1) << 8
                | (half >> 5 & 3) << 6
                | (half >> 2 & 1) << 5
                | (half >> 10 & 3) << 3
                | (half >> 3 & 3) << 1;
            let condition = if which == 6 { Condition::Equal } else { Condition::NotEqual };
            let registers = [Register::short(half >> 7), Register::ZERO];
            Instruction::Branch { condition, registers, distance: signed(distance, 9) }
        }
        // `c.slli`
        (2, 0) if register.0 != 0 => Instruction::ShiftLeft { to: register, from: register, by },
        // `c.jr`, `c.mv`
        (2, 4) if half >> 12 & 1 == 0 && register.0 != 0 => match second.0 {
            0 => Instruction::JumpRegister { link: Register::ZERO, to: register, offset: 0 },
            _ => Instruction::Add { to: register, from: second, value: 0 },
        },
        _ => return None,
    })
}
