//! Emulates instructions of aarch64: Arm ARM DDI 0487, C6.2.

use super::{Condition, Instruction, LEN, Register, Width};
use crate::function::stack::Stack;

/// The bits of PSTATE that an indirect branch leaves for a landing pad (`SPSR_EL1.BTYPE`); each instruction clears them.
const BRANCH_TYPE: u64 = 3 << 10;
const NEGATIVE: u64 = 1 << 31;
const ZERO: u64 = 1 << 30;
const CARRY: u64 = 1 << 29;
const OVERFLOW: u64 = 1 << 28;

/// The registers of interrupted code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// `x0` to `x30`.
    pub x: [u64; 31],
    /// The stack pointer.
    pub sp: u64,
    /// The address of the instruction.
    pub pc: u64,
    /// The processor state, as SPSR_EL1 has it.
    pub pstate: u64,
}

/// The stack, and the keys of pointer authentication.
pub trait Machine: Stack {
    /// Returns the pointer with an authentication code, as the instruction `pacia` computes it, or `pacib` if `key_b`
    /// is set. Uses the keys of the interrupted code.
    fn sign(&mut self, pointer: u64, modifier: u64, key_b: bool) -> u64;
}

impl Registers {
    /// Returns a register; number 31 is zero.
    pub fn get(&self, register: Register) -> u64 {
        self.x.get(usize::from(register.number())).copied().unwrap_or(0)
    }

    /// Returns a register; number 31 is the stack pointer.
    fn or_stack(&self, register: Register) -> u64 {
        self.x.get(usize::from(register.number())).copied().unwrap_or(self.sp)
    }

    /// Writes a register; number 31 discards the value.
    fn set(&mut self, register: Register, value: u64, width: Width) {
        if let Some(to) = self.x.get_mut(usize::from(register.number())) {
            *to = width.cut(value);
        }
    }

    /// Writes a register; number 31 is the stack pointer.
    fn set_or_stack(&mut self, register: Register, value: u64, width: Width) {
        let to = self.x.get_mut(usize::from(register.number())).unwrap_or(&mut self.sp);
        *to = width.cut(value);
    }

    /// Returns the stack pointer.
    pub const fn stack_pointer(&self) -> u64 {
        self.sp
    }

    fn meets(&self, condition: Condition) -> bool {
        match condition {
            Condition::Zero { register, width, is_zero } => {
                (width.cut(self.get(register)) == 0) == is_zero
            }
            Condition::Bit { register, bit, is_set } => {
                (self.get(register) >> (bit & 63) & 1 != 0) == is_set
            }
        }
    }
}

impl Width {
    const fn cut(self, value: u64) -> u64 {
        match self {
            Self::Word => value & 0xffff_ffff,
            Self::Double => value,
        }
    }

    /// Returns the flags of a subtraction.
    const fn compare(self, one: u64, other: u64) -> u64 {
        let sign: u64 = match self {
            Self::Word => 1 << 31,
            Self::Double => 1 << 63,
        };
        let (one, other) = (self.cut(one), self.cut(other));
        let result = self.cut(one.wrapping_sub(other));
        let mut flags = 0;
        if result & sign != 0 {
            flags |= NEGATIVE;
        }
        if result == 0 {
            flags |= ZERO;
        }
        // A subtraction sets the carry flag if it does not borrow.
        if one >= other {
            flags |= CARRY;
        }
        if (one ^ other) & (one ^ result) & sign != 0 {
            flags |= OVERFLOW;
        }
        flags
    }
}

impl Instruction {
    /// Returns by how many bytes below the stack pointer the instruction stores.
    pub const fn below_stack(&self) -> u64 {
        match self {
            Self::StorePair { bytes, .. } | Self::Store { bytes, .. } => *bytes as u64,
            _ => 0,
        }
    }

    /// Changes the registers and the stack as the instruction at `pc` does.
    pub fn emulate(&self, registers: &mut Registers, machine: &mut impl Machine) {
        let here = registers.pc;
        registers.pc = here.wrapping_add(LEN as u64);
        registers.pstate &= !BRANCH_TYPE;
        match *self {
            Self::Nop => {}
            Self::StorePair { registers: [first, second], bytes } => {
                let top = registers.sp.wrapping_sub(bytes.into());
                machine.store(top, registers.get(first));
                machine.store(top.wrapping_add(8), registers.get(second));
                registers.sp = top;
            }
            Self::Store { register, bytes } => {
                let top = registers.sp.wrapping_sub(bytes.into());
                machine.store(top, registers.get(register));
                registers.sp = top;
            }
            Self::Add { to, from, value, width } => {
                let value = registers.or_stack(from).wrapping_add_signed(value.into());
                registers.set_or_stack(to, value, width);
            }
            Self::Compare { register, value, width } => {
                let flags = width.compare(registers.or_stack(register), value.into());
                let all = NEGATIVE | ZERO | CARRY | OVERFLOW;
                registers.pstate = registers.pstate & !all | flags;
            }
            Self::Move { to, from, width } => registers.set(to, registers.get(from), width),
            Self::Constant { to, value } => registers.set(to, value, Width::Double),
            Self::Address { to, page, distance } => {
                let base = if page { here & !0xfff } else { here };
                registers.set(to, base.wrapping_add_signed(distance), Width::Double);
            }
            Self::Sign { key_b } => {
                let link = registers.get(Register::LINK);
                let signed = machine.sign(link, registers.sp, key_b);
                registers.set(Register::LINK, signed, Width::Double);
            }
            Self::Branch(condition, distance) => {
                if registers.meets(condition) {
                    registers.pc = here.wrapping_add_signed(distance.into());
                }
            }
            Self::Jump(distance) => registers.pc = here.wrapping_add_signed(distance.into()),
            Self::JumpRegister(to) | Self::Return(to) => registers.pc = registers.get(to),
        }
    }
}
