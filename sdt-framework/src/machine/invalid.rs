//! Why a program was not taken.

use core::fmt;

use dtrace_abi::dif::Subr;

/// The reason why a program is refused, and the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

/// Where something is wrong in a DIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The instruction with this index.
    Instruction(u32),
    /// The entry of the table of variables with this index.
    Variable(u32),
    /// The whole.
    Whole,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There are no instructions.
    Empty,
    /// So many instructions, and room for so many.
    Long(usize, usize),
    /// No opcode has this number.
    Opcode(u8),
    /// An instruction that only the kernel, or only the compiler, makes for itself.
    Internal(u8),
    /// There is no register with this number.
    Register(u8),
    /// A result for `%r0`, which is always zero.
    WritesZero,
    /// Something in bits that have no meaning.
    Reserved,
    /// A branch to here or before, which might never end.
    Backward(u32),
    /// A branch to behind the end.
    Target(u32),
    /// The last instruction is not `ret`.
    NoReturn,
    /// There is no integer with this index.
    Integer(u16),
    /// There is no string at this offset.
    String(u16),
    /// The table of strings does not end with a zero.
    Unterminated,
    /// There is no array with this number.
    Array(u8),
    /// The kernel has no variable with this number.
    Builtin(u16),
    /// A variable of the kernel's, which cannot be written, or is not of that scope.
    ReadOnly(u16),
    /// A variable that the program's table of variables does not declare for that scope.
    Undeclared(u16),
    /// A variable with keys used without, or the other way round.
    Keys(u16),
    /// There is no subroutine with this number.
    Subroutine(u16),
    /// A subroutine for structures that only the kernel it was made for has.
    Unsupported(Subr),
    /// A destructive subroutine without the option `destructive`.
    Destructive(Subr),
    /// No type has this number.
    Type(u8),
    /// A value of this many bytes does not fit a register.
    ValueSize(u32),
    /// No scope has this number.
    Scope(u8),
    /// No kind of variables has this number.
    Kind(u8),
    /// No variable can have this number.
    Number(u32),
    /// Flags without a meaning.
    Flags(u8),
    /// A variable that is held by reference and has no size.
    NoSize,
    /// A variable of more bytes than one may have.
    Oversized(u32),
    /// A variable that had keys before and now has none, or the other way round.
    ChangedKind,
    /// A variable of which now an address is held and before was not, or the other way round, or that
    /// became a string.
    ChangedType,
    /// A variable that had another size before.
    ChangedSize,
    /// More variables than there is room for.
    TooManyVariables,
    /// No room is left for what variables hold.
    NoRoomForValues,
    /// No room is left for strings.
    NoRoomForStrings,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Instruction(index) => write!(f, "instruction {index}: ")?,
            Place::Variable(index) => write!(f, "variable {index}: ")?,
            Place::Whole => {}
        }
        write!(f, "{}", self.problem)
    }
}

impl core::error::Error for Invalid {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => f.write_str("there are no instructions"),
            Self::Long(length, room) => {
                write!(f, "{length} instructions, and there is room for {room}")
            }
            Self::Opcode(number) => write!(f, "no opcode is {number}"),
            Self::Internal(number) => write!(f, "opcode {number} is not for programs"),
            Self::Register(number) => write!(f, "there is no register {number}"),
            Self::WritesZero => f.write_str("%r0 cannot be written"),
            Self::Reserved => f.write_str("something in reserved bits"),
            Self::Backward(to) => write!(f, "a branch backward, to {to}"),
            Self::Target(to) => write!(f, "a branch to {to}, behind the end"),
            Self::NoReturn => f.write_str("the last instruction has to be ret"),
            Self::Integer(index) => write!(f, "there is no integer {index}"),
            Self::String(offset) => write!(f, "there is no string at {offset}"),
            Self::Unterminated => f.write_str("the strings do not end with a zero"),
            Self::Array(number) => write!(f, "there is no array {number}"),
            Self::Builtin(number) => write!(f, "the kernel has no variable {number}"),
            Self::ReadOnly(number) => write!(f, "variable {number} is the kernel's"),
            Self::Undeclared(number) => write!(f, "variable {number} is not declared"),
            Self::Keys(number) => write!(f, "variable {number} is not used as it is declared"),
            Self::Subroutine(number) => write!(f, "there is no subroutine {number}"),
            Self::Unsupported(subr) => write!(f, "{}() is not for this kernel", subr.name()),
            Self::Destructive(subr) => {
                write!(f, "{}() is destructive, which is not allowed", subr.name())
            }
            Self::Type(number) => write!(f, "no type is {number}"),
            Self::ValueSize(size) => write!(f, "a value of {size} bytes does not fit a register"),
            Self::Scope(number) => write!(f, "no scope is {number}"),
            Self::Kind(number) => write!(f, "no kind of variables is {number}"),
            Self::Number(number) => write!(f, "no variable can have the number {number}"),
            Self::Flags(flags) => write!(f, "flags {flags:#x} have no meaning"),
            Self::NoSize => f.write_str("held by reference, and has no size"),
            Self::Oversized(size) => write!(f, "{size} bytes are more than a variable may have"),
            Self::ChangedKind => f.write_str("was declared before with other keys"),
            Self::ChangedType => f.write_str("was declared before with another type"),
            Self::ChangedSize => f.write_str("was declared before with another size"),
            Self::TooManyVariables => f.write_str("there is no room for so many variables"),
            Self::NoRoomForValues => f.write_str("there is no room for what it holds"),
            Self::NoRoomForStrings => f.write_str("there is no room for the strings"),
        }
    }
}
