//! x86_64: Intel SDM volume 2, 64-bit mode.

mod emulate;
mod movable;

pub use emulate::Registers;
pub use movable::{Movable, movable};

/// A general register, by its number in instructions: `rax` is 0, `rsp` is 4, `r15` is 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(u8);

impl Register {
    /// The stack pointer.
    pub const RSP: Self = Self(4);
    /// The frame pointer, if the code has one.
    pub const RBP: Self = Self(5);

    /// Returns the register with a number, if it is less than 16.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 16 { Some(Self(number)) } else { None }
    }

    /// Returns the number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The number of bits of a register that an instruction reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// The low 8 bits. Writing leaves the others.
    Byte,
    /// The low 32 bits. Writing clears the others.
    Long,
    /// All 64 bits.
    Quad,
}

/// A source of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// A constant, sign-extended to 64 bits.
    Immediate(i64),
}

/// An operation of two operands that sets the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `add`
    Add,
    /// `or`
    Or,
    /// `and`
    And,
    /// `sub`
    Sub,
    /// `xor`
    Xor,
    /// `cmp`: as `sub`, without a result.
    Compare,
    /// `test`: as `and`, without a result.
    Test,
}

/// An address that an instruction computes without an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The register to which the others are added.
    pub base: Base,
    /// Another register, and the logarithm of its factor.
    pub index: Option<(Register, u8)>,
    /// A constant.
    pub displacement: i32,
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// No base: the address is the index and the displacement.
    Zero,
    /// A register.
    Register(Register),
    /// The address of the next instruction.
    Next,
}

/// An instruction that can be emulated. A relative target is a distance in bytes from the next instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `nop` of any length, `endbr64`.
    Nop,
    /// `push`
    Push(Operand),
    /// `pop`
    Pop(Register),
    /// `mov`, between registers or of a constant.
    Move {
        /// The destination.
        to: Register,
        /// The source.
        from: Operand,
        /// The number of bits that are moved.
        width: Width,
    },
    /// `mov` to the red zone: the bytes below the stack pointer that a function without calls uses for its variables (System V
    /// ABI, 3.2.2).
    Store {
        /// The source.
        from: Operand,
        /// The distance of the destination below the stack pointer in bytes: from 8 to 128.
        below: u8,
        /// The number of bits that are stored.
        width: Width,
    },
    /// `movzx`, `movsx`, `movsxd`, between registers.
    Extend {
        /// The destination.
        to: Register,
        /// The source.
        from: Register,
        /// The number of bits of the source that the instruction uses.
        bits: u8,
        /// Whether the value is sign-extended.
        signed: bool,
        /// The number of bits that are written.
        width: Width,
    },
    /// `lea`
    Lea {
        /// The destination.
        to: Register,
        /// The address.
        address: Address,
        /// The number of bits that are written.
        width: Width,
    },
    /// An operation that sets the flags.
    Arithmetic {
        /// The operation.
        operation: Operation,
        /// The first operand, and the destination.
        to: Register,
        /// The second operand.
        from: Operand,
        /// The number of bits that are used.
        width: Width,
    },
    /// `leave`
    Leave,
    /// `call` to a relative target.
    Call(i32),
    /// `jmp` to a relative target.
    Jump(i32),
    /// `jmp` to the address in a register.
    JumpRegister(Register),
    /// `jmp` to the address in memory, in the image at a relative place: how functions of other images are called last.
    JumpThrough(i32),
    /// `ret`, and how many bytes of arguments it removes.
    Return(u16),
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decoded {
    /// The instruction.
    pub instruction: Instruction,
    /// Its length in bytes.
    pub length: u8,
}

/// Returns the instruction at the beginning of these bytes, if it can be emulated.
pub fn decode(bytes: &[u8]) -> Option<Decoded> {
    let mut cursor = Cursor { bytes, at: 0, rex: 0 };
    let instruction = cursor.instruction()?;
    // Processors reject longer instructions.
    let length = u8::try_from(cursor.at).ok().filter(|length| *length <= 15)?;
    Some(Decoded { instruction, length })
}

/// The second operand of an instruction with a ModRM byte.
enum Place {
    Register(Register),
    Memory(Address),
}

impl Place {
    fn register(self) -> Option<Register> {
        match self {
            Self::Register(register) => Some(register),
            Self::Memory(_) => None,
        }
    }

    /// Returns the distance below the stack pointer of a place in the red zone in which a word of 64 bits has room.
    fn red_zone(&self) -> Option<u8> {
        let base = Base::Register(Register::RSP);
        match *self {
            Self::Memory(Address { base: of, index: None, displacement: at @ -128..=-8 })
                if of == base =>
            {
                Some(at.unsigned_abs() as u8)
            }
            _ => None,
        }
    }
}

struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    rex: u8,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(*bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn short(&mut self) -> Option<i32> {
        Some((self.byte()? as i8).into())
    }

    fn long(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    const fn width(&self) -> Width {
        if self.rex & 8 != 0 { Width::Quad } else { Width::Long }
    }

    /// A register that three bits of the instruction and one of the prefix select.
    const fn register(&self, bits: u8, extension: u8) -> Register {
        let high = if self.rex & extension != 0 { 8 } else { 0 };
        Register(bits & 7 | high)
    }

    /// A register of 8 bits. Without the prefix, 4 to 7 are the second bytes of registers, which code seldom uses.
    fn byte_register(&self, register: Register) -> Option<Register> {
        (register.0 < 4 || self.rex != 0).then_some(register)
    }

    /// Reads a ModRM byte, and returns its two operands.
    fn operands(&mut self) -> Option<(Register, Place)> {
        let byte = self.byte()?;
        let register = self.register(byte >> 3, 4);
        let (mode, low) = (byte >> 6, byte & 7);
        if mode == 3 {
            return Some((register, Place::Register(self.register(low, 1))));
        }
        let mut index = None;
        let mut base = Base::Register(self.register(low, 1));
        if low == 4 {
            let scaled = self.byte()?;
            let of_index = self.register(scaled >> 3, 2);
            index = (of_index != Register::RSP).then_some((of_index, scaled >> 6));
            base = Base::Register(self.register(scaled, 1));
            if mode == 0 && scaled & 7 == 5 {
                base = Base::Zero;
            }
        } else if mode == 0 && low == 5 {
            base = Base::Next;
        }
        let displacement = match (mode, base) {
            (0, Base::Register(_)) => 0,
            (1, _) => self.short()?,
            _ => self.long()?,
        };
        Some((register, Place::Memory(Address { base, index, displacement })))
    }

    fn instruction(&mut self) -> Option<Instruction> {
        // `data16`: only in front of nops and segment prefixes that pad them.
        let mut padded = false;
        while matches!(self.bytes.get(self.at), Some(0x66 | 0x2e)) {
            self.at += 1;
            padded = true;
        }
        if self.bytes.get(self.at..)?.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
            self.at += 4;
            return (!padded).then_some(Instruction::Nop);
        }
        // `repz ret` is `ret` for a branch predictor of long ago.
        if !padded && self.bytes.get(self.at..)?.starts_with(&[0xf3, 0xc3]) {
            self.at += 2;
            return Some(Instruction::Return(0));
        }
        let first = self.byte()?;
        let opcode = if first & 0xf0 == 0x40 {
            self.rex = first;
            self.byte()?
        } else {
            first
        };
        if padded {
            return self.padded_nop(opcode);
        }
        self.unprefixed(opcode)
    }

    fn padded_nop(&mut self, opcode: u8) -> Option<Instruction> {
        match opcode {
            // With REX.B it is `xchg`.
            0x90 if self.rex & 1 == 0 => Some(Instruction::Nop),
            0x0f => self.long_nop(),
            _ => None,
        }
    }

    /// `nopw` and `nopl` with an operand in memory, which they do not access.
    fn long_nop(&mut self) -> Option<Instruction> {
        (self.byte()? == 0x1f).then_some(())?;
        self.operands()?;
        Some(Instruction::Nop)
    }

    fn unprefixed(&mut self, opcode: u8) -> Option<Instruction> {
        let width = self.width();
        Some(match opcode {
            0x50..=0x57 => Instruction::Push(Operand::Register(self.register(opcode, 1))),
            0x58..=0x5f => Instruction::Pop(self.register(opcode, 1)),
            0x68 => Instruction::Push(Operand::Immediate(self.long()?.into())),
            0x6a => Instruction::Push(Operand::Immediate(self.short()?.into())),
            0x90 if self.rex & 1 == 0 => Instruction::Nop,
            0x0f => return self.two_bytes(),
            0x63 if width == Width::Quad => {
                let (to, from) = self.operands()?;
                Instruction::Extend { to, from: from.register()?, bits: 32, signed: true, width }
            }
            0x88..=0x8b => {
                let (register, place) = self.operands()?;
                if opcode < 0x8a
                    && let Some(below) = place.red_zone()
                {
                    let width = self.only(opcode, [register, register])?;
                    return Some(Instruction::Store {
                        from: Operand::Register(register),
                        below,
                        width,
                    });
                }
                let place = place.register()?;
                let (to, from) = if opcode < 0x8a { (place, register) } else { (register, place) };
                let width = self.only(opcode, [to, from])?;
                Instruction::Move { to, from: Operand::Register(from), width }
            }
            0xb8..=0xbf => {
                let to = self.register(opcode, 1);
                let value = match width {
                    Width::Quad => self.take().map(i64::from_le_bytes)?,
                    _ => self.long()?.into(),
                };
                Instruction::Move { to, from: Operand::Immediate(value), width }
            }
            0xc7 => {
                let (digit, place) = self.operands()?;
                (digit.0 & 7 == 0).then_some(())?;
                let from = Operand::Immediate(self.long()?.into());
                match place.red_zone() {
                    Some(below) => Instruction::Store { from, below, width },
                    None => Instruction::Move { to: place.register()?, from, width },
                }
            }
            0x8d => {
                let (to, place) = self.operands()?;
                let Place::Memory(address) = place else { return None };
                Instruction::Lea { to, address, width }
            }
            0x84 | 0x85 => {
                let (register, place) = self.operands()?;
                let to = place.register()?;
                let width = self.only(opcode, [to, register])?;
                let from = Operand::Register(register);
                Instruction::Arithmetic { operation: Operation::Test, to, from, width }
            }
            0xa8 | 0xa9 => {
                self.with_constant(opcode, Operation::Test, Register(0), opcode == 0xa8)?
            }
            0xf6 | 0xf7 => {
                let (digit, to) = self.digit()?;
                (digit == 0).then_some(())?;
                self.with_constant(opcode, Operation::Test, to, opcode == 0xf6)?
            }
            0x80 | 0x81 | 0x83 => {
                let (digit, to) = self.digit()?;
                self.with_constant(opcode, operation(digit)?, to, opcode != 0x81)?
            }
            0x00..=0x3d if opcode & 7 < 6 => self.arithmetic(opcode)?,
            0xc9 => Instruction::Leave,
            0xe8 => Instruction::Call(self.long()?),
            0xe9 => Instruction::Jump(self.long()?),
            0xeb => Instruction::Jump(self.short()?),
            0xff => {
                let (digit, place) = self.operands()?;
                (digit.0 & 7 == 4).then_some(())?;
                match place {
                    Place::Register(to) => Instruction::JumpRegister(to),
                    Place::Memory(Address { base: Base::Next, index: None, displacement }) => {
                        Instruction::JumpThrough(displacement)
                    }
                    Place::Memory(_) => return None,
                }
            }
            0xc3 => Instruction::Return(0),
            0xc2 => Instruction::Return(self.take().map(u16::from_le_bytes)?),
            _ => return None,
        })
    }

    /// Returns the width of an instruction by the lowest bit of its opcode: 0 means bytes. `None` if a register of a byte
    /// instruction is the second byte of a register.
    fn only(&self, opcode: u8, registers: [Register; 2]) -> Option<Width> {
        if opcode & 1 != 0 {
            return Some(self.width());
        }
        let [one, other] = registers;
        self.byte_register(one)?;
        self.byte_register(other)?;
        Some(Width::Byte)
    }

    /// Reads a ModRM byte, and returns the three bits that select the operation, and the operand if it is a register.
    fn digit(&mut self) -> Option<(u8, Register)> {
        let (digit, place) = self.operands()?;
        Some((digit.0 & 7, place.register()?))
    }

    fn with_constant(
        &mut self,
        opcode: u8,
        operation: Operation,
        to: Register,
        short: bool,
    ) -> Option<Instruction> {
        // Opcode 0x83 has a constant of one byte, but operates on longer registers.
        let width = if opcode == 0x83 { self.width() } else { self.only(opcode, [to, to])? };
        let value = if short { self.short()? } else { self.long()? };
        let from = Operand::Immediate(value.into());
        Some(Instruction::Arithmetic { operation, to, from, width })
    }

    /// `add`, `or`, `and`, `sub`, `xor` and `cmp` of two registers, or of `al` or `eax` and a constant.
    fn arithmetic(&mut self, opcode: u8) -> Option<Instruction> {
        let operation = operation(opcode >> 3)?;
        if opcode & 4 != 0 {
            return self.with_constant(opcode, operation, Register(0), opcode & 1 == 0);
        }
        let (register, place) = self.operands()?;
        let place = place.register()?;
        let (to, from) = if opcode & 2 == 0 { (place, register) } else { (register, place) };
        let width = self.only(opcode, [to, from])?;
        Some(Instruction::Arithmetic { operation, to, from: Operand::Register(from), width })
    }

    /// `movzx` and `movsx` of registers, and long nops.
    fn two_bytes(&mut self) -> Option<Instruction> {
        let opcode = self.byte()?;
        if opcode == 0x1f {
            self.operands()?;
            return Some(Instruction::Nop);
        }
        if !matches!(opcode, 0xb6 | 0xb7 | 0xbe | 0xbf) {
            return None;
        }
        let (to, place) = self.operands()?;
        let from = place.register()?;
        let bits = if opcode & 1 == 0 { 8 } else { 16 };
        if bits == 8 {
            self.byte_register(from)?;
        }
        Some(Instruction::Extend { to, from, bits, signed: opcode >= 0xbe, width: self.width() })
    }
}

/// The operation that three bits select; `adc` and `sbb` are not at the boundaries of functions.
const fn operation(bits: u8) -> Option<Operation> {
    match bits {
        0 => Some(Operation::Add),
        1 => Some(Operation::Or),
        4 => Some(Operation::And),
        5 => Some(Operation::Sub),
        6 => Some(Operation::Xor),
        7 => Some(Operation::Compare),
        _ => None,
    }
}
