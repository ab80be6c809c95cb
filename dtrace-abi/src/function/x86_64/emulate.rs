//! Emulates instructions of x86_64: Intel SDM volume 2.

use super::{Address, Base, Decoded, Instruction, Operand, Operation, Register, Width};
use crate::function::stack::Stack;

/// The carry flag.
const CARRY: u64 = 1 << 0;
/// The parity flag.
const PARITY: u64 = 1 << 2;
/// The auxiliary carry flag.
const AUXILIARY: u64 = 1 << 4;
/// The zero flag.
const ZERO: u64 = 1 << 6;
/// The sign flag.
const SIGN: u64 = 1 << 7;
/// The overflow flag.
const OVERFLOW: u64 = 1 << 11;
/// All flags that arithmetic sets.
const ARITHMETIC: u64 = CARRY | PARITY | AUXILIARY | ZERO | SIGN | OVERFLOW;

/// The registers of interrupted code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The general registers in the order of their [numbers](Register::number): `rax`, `rcx`, `rdx`, `rbx`, `rsp`, `rbp`, `rsi`,
    /// `rdi`, `r8` to `r15`.
    pub general: [u64; 16],
    /// The address of the instruction.
    pub rip: u64,
    /// The flags.
    pub rflags: u64,
}

impl Registers {
    /// Returns a register.
    pub const fn get(&self, register: Register) -> u64 {
        self.general[(register.number() & 15) as usize]
    }

    /// Sets all bits of a register.
    const fn set(&mut self, register: Register, value: u64) {
        self.general[(register.number() & 15) as usize] = value;
    }

    /// Returns the stack pointer.
    pub const fn stack_pointer(&self) -> u64 {
        self.get(Register::RSP)
    }

    /// Writes a register as an instruction of this width does.
    const fn write(&mut self, register: Register, value: u64, width: Width) {
        let value = match width {
            Width::Byte => self.get(register) & !0xff | value & 0xff,
            Width::Long => value & 0xffff_ffff,
            Width::Quad => value,
        };
        self.set(register, value);
    }

    const fn operand(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Immediate(value) => value as u64,
        }
    }

    /// Returns an address, for an instruction that ends at `next`.
    fn address(&self, address: Address, next: u64) -> u64 {
        let base = match address.base {
            Base::Zero => 0,
            Base::Register(register) => self.get(register),
            Base::Next => next,
        };
        let index = address.index.map_or(0, |(register, shift)| self.get(register) << shift);
        base.wrapping_add(index).wrapping_add_signed(address.displacement.into())
    }

    fn push(&mut self, value: u64, stack: &mut impl Stack) {
        let top = self.stack_pointer().wrapping_sub(8);
        stack.store(top, value);
        self.set(Register::RSP, top);
    }

    fn pop(&mut self, stack: &mut impl Stack) -> u64 {
        let top = self.stack_pointer();
        self.set(Register::RSP, top.wrapping_add(8));
        stack.load(top)
    }
}

impl Width {
    const fn bits(self) -> u32 {
        match self {
            Self::Byte => 8,
            Self::Long => 32,
            Self::Quad => 64,
        }
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    const fn sign(self) -> u64 {
        1 << (self.bits() - 1)
    }
}

impl Operation {
    /// Returns the result and the flags. Logical operations clear the auxiliary flag, which the manual leaves undefined.
    const fn perform(self, one: u64, other: u64, width: Width) -> (u64, u64) {
        let (one, other) = (one & width.mask(), other & width.mask());
        let (result, carry, overflow, auxiliary) = match self {
            Self::Add => {
                let result = one.wrapping_add(other) & width.mask();
                let overflow = (one ^ result) & (other ^ result) & width.sign() != 0;
                (result, result < one, overflow, (one ^ other ^ result) & 16 != 0)
            }
            Self::Sub | Self::Compare => {
                let result = one.wrapping_sub(other) & width.mask();
                let overflow = (one ^ other) & (one ^ result) & width.sign() != 0;
                (result, one < other, overflow, (one ^ other ^ result) & 16 != 0)
            }
            Self::And | Self::Test => (one & other, false, false, false),
            Self::Or => (one | other, false, false, false),
            Self::Xor => (one ^ other, false, false, false),
        };
        let mut flags = 0;
        if carry {
            flags |= CARRY;
        }
        if (result & 0xff).count_ones().is_multiple_of(2) {
            flags |= PARITY;
        }
        if auxiliary {
            flags |= AUXILIARY;
        }
        if result == 0 {
            flags |= ZERO;
        }
        if result & width.sign() != 0 {
            flags |= SIGN;
        }
        if overflow {
            flags |= OVERFLOW;
        }
        (result, flags)
    }
}

impl Decoded {
    /// Returns by how many bytes below the stack pointer the instruction stores.
    pub const fn below_stack(&self) -> u64 {
        match self.instruction {
            Instruction::Push(_) | Instruction::Call(_) => 8,
            Instruction::Store { below, .. } => below as u64,
            _ => 0,
        }
    }

    /// Changes the registers and the stack as the instruction at `rip` does.
    pub fn emulate(&self, registers: &mut Registers, stack: &mut impl Stack) {
        let next = registers.rip.wrapping_add(self.length.into());
        registers.rip = next;
        match self.instruction {
            Instruction::Nop => {}
            Instruction::Push(operand) => registers.push(registers.operand(operand), stack),
            Instruction::Pop(to) => {
                let value = registers.pop(stack);
                registers.set(to, value);
            }
            Instruction::Move { to, from, width } => {
                registers.write(to, registers.operand(from), width);
            }
            Instruction::Store { from, below, width } => {
                let at = registers.stack_pointer().wrapping_sub(below.into());
                let value = registers.operand(from) & width.mask();
                // The other bytes of the word are in the red zone, too.
                let kept = if width == Width::Quad { 0 } else { stack.load(at) & !width.mask() };
                stack.store(at, kept | value);
            }
            Instruction::Extend { to, from, bits, signed, width } => {
                let unused = 64 - u32::from(bits.clamp(1, 64));
                let value = registers.get(from) << unused;
                let value = if signed { (value as i64 >> unused) as u64 } else { value >> unused };
                registers.write(to, value, width);
            }
            Instruction::Lea { to, address, width } => {
                registers.write(to, registers.address(address, next), width);
            }
            Instruction::Arithmetic { operation, to, from, width } => {
                let (one, other) = (registers.get(to), registers.operand(from));
                let (result, flags) = operation.perform(one, other, width);
                registers.rflags = registers.rflags & !ARITHMETIC | flags;
                if !matches!(operation, Operation::Compare | Operation::Test) {
                    registers.write(to, result, width);
                }
            }
            Instruction::Leave => {
                registers.set(Register::RSP, registers.get(Register::RBP));
                let frame = registers.pop(stack);
                registers.set(Register::RBP, frame);
            }
            Instruction::Call(distance) => {
                registers.push(next, stack);
                registers.rip = next.wrapping_add_signed(distance.into());
            }
            Instruction::Jump(distance) => {
                registers.rip = next.wrapping_add_signed(distance.into());
            }
            Instruction::JumpRegister(to) => registers.rip = registers.get(to),
            Instruction::JumpThrough(distance) => {
                registers.rip = stack.load(next.wrapping_add_signed(distance.into()));
            }
            Instruction::Return(arguments) => {
                registers.rip = registers.pop(stack);
                let top = registers.stack_pointer().wrapping_add(arguments.into());
                registers.set(Register::RSP, top);
            }
        }
    }
}
