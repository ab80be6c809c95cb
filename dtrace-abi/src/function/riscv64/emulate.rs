//! Emulates instructions of riscv64: the RISC-V Instruction Set Manual, volume I, RV64I.

use super::{Condition, Decoded, Instruction, Register};

/// The registers of interrupted code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// `x0` to `x31`. The first one is zero.
    pub x: [u64; 32],
    /// The address of the instruction.
    pub pc: u64,
}

impl Registers {
    /// Returns a register.
    pub const fn get(&self, register: Register) -> u64 {
        match register.number() & 31 {
            0 => 0,
            number => self.x[number as usize],
        }
    }

    const fn set(&mut self, register: Register, value: u64) {
        let number = register.number() & 31;
        if number != 0 {
            self.x[number as usize] = value;
        }
    }

    /// Returns the stack pointer.
    pub const fn stack_pointer(&self) -> u64 {
        self.get(Register::SP)
    }
}

impl Condition {
    const fn holds(self, one: u64, other: u64) -> bool {
        match self {
            Self::Equal => one == other,
            Self::NotEqual => one != other,
            Self::Less => (one as i64) < other as i64,
            Self::GreaterOrEqual => one as i64 >= other as i64,
            Self::Below => one < other,
            Self::AboveOrEqual => one >= other,
        }
    }
}

impl Decoded {
    /// Changes the registers as the instruction at `pc` does. No instruction accesses memory.
    pub const fn emulate(&self, registers: &mut Registers) {
        let here = registers.pc;
        let next = here.wrapping_add(self.length as u64);
        registers.pc = next;
        match self.instruction {
            Instruction::Add { to, from, value } => {
                registers.set(to, registers.get(from).wrapping_add_signed(value as i64));
            }
            Instruction::AddWord { to, from, value } => {
                let sum = (registers.get(from) as i32).wrapping_add(value);
                registers.set(to, sum as i64 as u64);
            }
            Instruction::And { to, from, value } => {
                registers.set(to, registers.get(from) & value as i64 as u64);
            }
            Instruction::ShiftLeft { to, from, by } => {
                registers.set(to, registers.get(from) << (by & 63));
            }
            Instruction::ShiftRight { to, from, by } => {
                registers.set(to, registers.get(from) >> (by & 63));
            }
            Instruction::Upper { to, value } => registers.set(to, value as i64 as u64),
            Instruction::Address { to, distance } => {
                registers.set(to, here.wrapping_add_signed(distance as i64));
            }
            Instruction::Branch { condition, registers: [one, other], distance } => {
                if condition.holds(registers.get(one), registers.get(other)) {
                    registers.pc = here.wrapping_add_signed(distance as i64);
                }
            }
            Instruction::Jump { link, distance } => {
                registers.set(link, next);
                registers.pc = here.wrapping_add_signed(distance as i64);
            }
            Instruction::JumpRegister { link, to, offset } => {
                // The target is computed first: both registers may be the same.
                let target = registers.get(to).wrapping_add_signed(offset as i64) & !1;
                registers.set(link, next);
                registers.pc = target;
            }
        }
    }
}
