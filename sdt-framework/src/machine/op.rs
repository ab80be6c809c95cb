//! Decoded programs. All numbers of registers and variables, and all targets of branches, are validated.

use dtrace_abi::dif::{Builtin, Subr};

use crate::kernel::LockQuestion;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of DIF's listings")]
pub(crate) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
}

impl Reg {
    pub(crate) const ZERO: Self = Self::R0;

    pub(crate) const fn new(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::R0,
            1 => Self::R1,
            2 => Self::R2,
            3 => Self::R3,
            4 => Self::R4,
            5 => Self::R5,
            6 => Self::R6,
            7 => Self::R7,
            _ => return None,
        })
    }
}

/// The registers. `%r0` is always 0, because no validated program writes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers([u64; 8]);

impl Registers {
    #[inline(always)]
    pub(crate) fn get(&self, reg: Reg) -> u64 {
        self.0[reg as usize]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, reg: Reg, value: u64) {
        self.0[reg as usize] = value;
    }
}

/// The size of a load in bytes, and its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    I8,
    I16,
    I32,
    U8,
    U16,
    U32,
    U64,
}

impl Width {
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 => 4,
            Self::U64 => 8,
        }
    }

    /// Returns the value of a register after a load of these bits.
    pub(crate) const fn extend(self, bits: u64) -> u64 {
        match self {
            Self::I8 => bits as i8 as u64,
            Self::I16 => bits as i16 as u64,
            Self::I32 => bits as i32 as u64,
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => bits,
        }
    }
}

/// The kind of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A number.
    Value,
    /// This number of bytes, whose address is in the register.
    Bytes(u32),
    /// A string of at most this number of bytes, whose address is in the register.
    String(u32),
}

impl Shape {
    /// Returns the size of the value in bytes.
    pub(crate) const fn size(self) -> u32 {
        match self {
            Self::Value => 8,
            Self::Bytes(size) | Self::String(size) => size,
        }
    }
}

/// A dynamic variable: its number, counted from the first number for variables of programs, and whether it is thread-local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Var {
    pub number: u16,
    pub thread: bool,
}

impl Var {
    /// Returns the first word of the keys of its variables. `objects` are the positions of keys that are not numbers: the bit of
    /// each position is set.
    pub(crate) const fn key(self, objects: u32) -> u64 {
        (objects as u64) << 32 | (self.number as u64) << 1 | self.thread as u64
    }
}

/// The condition of a branch: the result of the last comparison for which the branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cond {
    Equal,
    NotEqual,
    Greater,
    GreaterUnsigned,
    GreaterEqual,
    GreaterEqualUnsigned,
    Less,
    LessUnsigned,
    LessEqual,
    LessEqualUnsigned,
}

impl Cond {
    /// Returns the [orders](Compared::order) for which a branch with this condition is taken: the bit of each order is set.
    pub(crate) const fn orders(self) -> u8 {
        const EQUAL: u8 = 0xf0;
        const NEGATIVE: u8 = 0xcc;
        const BELOW: u8 = 0xaa;
        match self {
            Self::Equal => EQUAL,
            Self::NotEqual => !EQUAL,
            Self::Greater => !EQUAL & !NEGATIVE,
            Self::GreaterUnsigned => !EQUAL & !BELOW,
            Self::GreaterEqual => !NEGATIVE,
            Self::GreaterEqualUnsigned => !BELOW,
            Self::Less => NEGATIVE,
            Self::LessUnsigned => BELOW,
            Self::LessEqual => EQUAL | NEGATIVE,
            Self::LessEqualUnsigned => EQUAL | BELOW,
        }
    }
}

/// The last comparison: two numbers that have the same order as the compared values. Branches only test their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared(u64, u64);

impl Compared {
    /// The state before the first comparison: only branches for *greater* and *not equal* are taken.
    pub(crate) const NOTHING: Self = Self(1, 0);

    pub(crate) const fn numbers(one: u64, other: u64) -> Self {
        Self(one, other)
    }

    /// Returns the comparison of a number with 0 by `tst`: the number is equal or greater.
    pub(crate) const fn tested(value: u64) -> Self {
        Self((value != 0) as u64, 0)
    }

    /// Returns the comparison of two strings with this difference. For unsigned conditions, the first string is never less than
    /// the second.
    pub(crate) const fn strings(difference: i64) -> Self {
        match difference {
            ..0 => Self(1 << 63, 0),
            0 => Self(0, 0),
            1.. => Self(1, 0),
        }
    }

    /// Returns the order of the numbers, from 0 to 7: bit 2 is set if they are equal, bit 1 if their difference is negative, bit 0
    /// if the first one is below the second one. As in dtrace.c, the sign of the difference decides, even if the difference
    /// overflows.
    #[inline(always)]
    pub(crate) const fn order(self) -> u32 {
        let Self(one, other) = self;
        let is_negative = (one.wrapping_sub(other) as i64) < 0;
        ((one == other) as u32) << 2 | (is_negative as u32) << 1 | (one < other) as u32
    }

    /// Returns whether a branch with this condition is taken.
    #[inline(always)]
    pub(crate) const fn is(self, cond: Cond) -> bool {
        cond.orders() >> self.order() & 1 != 0
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Or(Reg, Reg, Reg),
    Xor(Reg, Reg, Reg),
    And(Reg, Reg, Reg),
    Sll(Reg, Reg, Reg),
    Srl(Reg, Reg, Reg),
    Sra(Reg, Reg, Reg),
    Sub(Reg, Reg, Reg),
    Add(Reg, Reg, Reg),
    Mul(Reg, Reg, Reg),
    Sdiv(Reg, Reg, Reg),
    Udiv(Reg, Reg, Reg),
    Srem(Reg, Reg, Reg),
    Urem(Reg, Reg, Reg),
    Not(Reg, Reg),
    Mov(Reg, Reg),
    Cmp(Reg, Reg),
    Tst(Reg),
    Scmp(Reg, Reg),
    Ba(u32),
    /// A branch to a later instruction, depending on the last comparison.
    Branch(Cond, u32),
    Load(Width, Reg, Reg),
    LoadUser(Width, Reg, Reg),
    /// Stores the first register to the address in the second one.
    Store(Width, Reg, Reg),
    Ret(Reg),
    Nop,
    /// `setx` and `sets`.
    Set(Reg, u64),
    /// `arg0` to `arg9`, and `args[]` with a constant index.
    Arg(u8, Reg),
    Args(Reg, Reg),
    UserRegister(Reg, Reg),
    Builtin(Builtin, Reg),
    /// Loads a number. The first operand is the index of the variable's word, also in the next three instructions.
    LoadGlobal(u32, Reg),
    StoreGlobal(u32, Reg),
    LoadLocal(u32, Reg),
    StoreLocal(u32, Reg),
    /// Loads the address of a value. The first operand is the number of the variable, also in the next three instructions.
    LoadGlobalRef(u16, Reg),
    StoreGlobalRef(u16, Shape, Reg),
    LoadLocalRef(u16, Reg),
    StoreLocalRef(u16, Shape, Reg),
    /// Loads a thread-local variable without keys.
    LoadThread(u16, Shape, Reg),
    StoreThread(u16, Shape, Reg),
    /// Loads an element of an array, whose keys have been pushed.
    LoadElement(Var, bool, Reg),
    StoreElement(Var, Shape, Reg),
    PushValue(Reg),
    PushBytes(Reg, Reg),
    PushString(Reg, Reg),
    Pop,
    Flush,
    Alloc(Reg, Reg),
    /// Copies bytes. The operands are the source, the number of bytes, and the destination.
    Copy(Reg, Reg, Reg),
    Call(Subr, Reg),
    Lock(LockQuestion, Reg),
    /// A combination that [`fuse`](super::fuse) makes: sets a register to a number, compares a register with it, and branches.
    SetCompareBranch(Reg, Reg, Cond, u32, u64),
    /// Combinations that [`fuse`](super::fuse) makes: return a constant, an argument, or a built-in variable.
    ReturnSet(u64),
    ReturnArg(u8),
    ReturnBuiltin(Builtin),
}

/// Room for one instruction of a program: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Slot(pub(crate) Op);

impl Slot {
    /// The initial element of arrays.
    pub const EMPTY: Self = Self(Op::Ret(Reg::ZERO));
}

const _: () = assert!(size_of::<Slot>() == 16);
