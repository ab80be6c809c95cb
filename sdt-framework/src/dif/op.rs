//! Programs as the machine has them: decoded once, with every number of a register, a variable and a branch
//! known to be one.

use dtrace_abi::dif::{Builtin, Subr};

use super::kernel::LockQuestion;

/// A register: always below 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg(u8);

impl Reg {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn new(number: u8) -> Option<Self> {
        if number < 8 { Some(Self(number)) } else { None }
    }
}

/// The registers; `%r0` is one like the others, but nothing that has been validated writes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers([u64; 8]);

impl Registers {
    #[inline(always)]
    pub(crate) fn get(&self, Reg(number): Reg) -> u64 {
        // The mask changes nothing, and tells the compiler so.
        self.0[usize::from(number & 7)]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, Reg(number): Reg, value: u64) {
        self.0[usize::from(number & 7)] = value;
    }
}

/// How many bytes a load takes, and what becomes of the sign.
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

    /// What a register holds after a load of these bits.
    pub(crate) const fn extend(self, bits: u64) -> u64 {
        match self {
            Self::I8 => bits as i8 as u64,
            Self::I16 => bits as i16 as u64,
            Self::I32 => bits as i32 as u64,
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => bits,
        }
    }
}

/// What a variable holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A number.
    Value,
    /// So many bytes, of which the register has the address.
    Bytes(u32),
    /// A string of at most so many bytes, likewise.
    String(u32),
}

impl Shape {
    /// Bytes that it takes.
    pub(crate) const fn size(self) -> u32 {
        match self {
            Self::Value => 8,
            Self::Bytes(size) | Self::String(size) => size,
        }
    }
}

/// A dynamic variable: its number counted from the first one of a program, and whether every thread has
/// one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Var {
    pub number: u16,
    pub thread: bool,
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
    Be(u32),
    Bne(u32),
    Bg(u32),
    Bgu(u32),
    Bge(u32),
    Bgeu(u32),
    Bl(u32),
    Blu(u32),
    Ble(u32),
    Bleu(u32),
    Load(Width, Reg, Reg),
    LoadUser(Width, Reg, Reg),
    /// From the first to where the second points.
    Store(Width, Reg, Reg),
    Ret(Reg),
    Nop,
    /// `setx` and `sets`.
    Set(Reg, u64),
    /// `arg0` to `arg9`, `args[]` with an index that is known.
    Arg(u8, Reg),
    Args(Reg, Reg),
    UserRegister(Reg, Reg),
    Builtin(Builtin, Reg),
    /// The word of a variable.
    LoadGlobal(u32, Reg),
    StoreGlobal(u32, Reg),
    LoadLocal(u32, Reg),
    StoreLocal(u32, Reg),
    /// The number of a variable.
    LoadGlobalRef(u16, Reg),
    StoreGlobalRef(u16, Shape, Reg),
    LoadLocalRef(u16, Reg),
    StoreLocalRef(u16, Shape, Reg),
    /// A thread-local variable without keys.
    LoadThread(u16, Shape, Reg),
    StoreThread(u16, Shape, Reg),
    /// An element, whose keys have been pushed.
    LoadElement(Var, bool, Reg),
    StoreElement(Var, Shape, Reg),
    PushValue(Reg),
    PushBytes(Reg, Reg),
    PushString(Reg, Reg),
    Pop,
    Flush,
    Alloc(Reg, Reg),
    /// From, so many bytes, to.
    Copy(Reg, Reg, Reg),
    Call(Subr, Reg),
    Lock(LockQuestion, Reg),
}

/// Room for one instruction of a program: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Slot(pub(crate) Op);

impl Slot {
    /// What an array of them is filled with.
    pub const EMPTY: Self = Self(Op::Ret(Reg::ZERO));
}

const _: () = assert!(size_of::<Slot>() == 16);
