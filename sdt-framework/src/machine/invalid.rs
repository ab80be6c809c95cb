//! The errors of validation.

use core::fmt;

use dtrace_abi::dif::Subr;

/// The reason why a program is refused, and the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The place of the fault.
    pub place: InvalidPlace,
    /// The fault.
    pub problem: Problem,
}

/// The place of an error in a DIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPlace {
    /// The instruction with this index.
    Instruction(u32),
    /// The entry of the table of variables with this index.
    Variable(u32),
    /// The DIFO as a whole.
    Whole,
}

/// The error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There are no instructions.
    Empty,
    /// There is not enough room: the number of instructions, and the number of free slots.
    Long(usize, usize),
    /// No opcode has this number.
    Opcode(u8),
    /// An instruction that only the kernel, or only the compiler, makes for itself.
    Internal(u8),
    /// There is no register with this number.
    Register(u8),
    /// A result for `%r0`, which is always zero.
    WritesZero,
    /// Reserved bits are not zero.
    Reserved,
    /// A branch to itself or to an earlier instruction, with which the program might never end.
    Backward(u32),
    /// A branch beyond the end.
    Target(u32),
    /// The last instruction is not `ret`.
    NoReturn,
    /// There is no integer with this index.
    Integer(u16),
    /// There is no string at this offset.
    String(u16),
    /// The string table does not end with a zero.
    Unterminated,
    /// There is no array with this number.
    Array(u8),
    /// The kernel has no variable with this number.
    Builtin(u16),
    /// A built-in variable, which cannot be written, or does not have that scope.
    ReadOnly(u16),
    /// A variable that the program's table of variables does not declare for that scope.
    Undeclared(u16),
    /// A variable with keys that is used without keys, or the reverse.
    Keys(u16),
    /// There is no subroutine with this number.
    Subroutine(u16),
    /// A subroutine for structures of a particular kernel.
    Unsupported(Subr),
    /// A destructive subroutine without the option `destructive`.
    Destructive(Subr),
    /// No type has this number.
    Type(u8),
    /// A value of this many bytes does not fit into a register.
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
    /// A variable that is larger than the limit.
    Oversized(u32),
    /// A variable that had keys before and now has none, or the other way round.
    ChangedKind,
    /// A variable that had another kind of type before: a number, bytes by reference, or a string.
    ChangedType,
    /// A variable that had another size before.
    ChangedSize,
    /// More variables than there is room for.
    TooManyVariables,
    /// No room is left for values of variables.
    NoRoomForValues,
    /// No room is left for strings.
    NoRoomForStrings,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            InvalidPlace::Instruction(index) => write!(f, "instruction {index}: ")?,
            InvalidPlace::Variable(index) => write!(f, "variable {index}: ")?,
            InvalidPlace::Whole => {}
        }
        write!(f, "{}", self.problem)
    }
}

impl core::error::Error for Invalid {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => f.write_str("the program has no instructions"),
            Self::Long(length, room) => {
                write!(f, "{length} instructions do not fit: there is room for {room} more")
            }
            Self::Opcode(number) => write!(f, "opcode {number} is unknown"),
            Self::Internal(number) => write!(f, "opcode {number} is not allowed in programs"),
            Self::Register(number) => write!(f, "there is no register {number}"),
            Self::WritesZero => f.write_str("%r0 cannot be written"),
            Self::Reserved => f.write_str("reserved bits are not zero"),
            Self::Backward(to) => write!(f, "a branch backward to instruction {to}"),
            Self::Target(to) => write!(f, "a branch to instruction {to}, beyond the end"),
            Self::NoReturn => f.write_str("the last instruction must be ret"),
            Self::Integer(index) => write!(f, "the integer table has no index {index}"),
            Self::String(offset) => write!(f, "the string table has no string at offset {offset}"),
            Self::Unterminated => f.write_str("the string table does not end with a zero"),
            Self::Array(number) => write!(f, "there is no array {number}"),
            Self::Builtin(number) => write!(f, "the kernel has no variable {number}"),
            Self::ReadOnly(number) => write!(
                f,
                "built-in variable {number} can only be read, and only in \
                 its own scope"
            ),
            Self::Undeclared(number) => write!(f, "variable {number} is not declared"),
            Self::Keys(number) => write!(
                f,
                "variable {number} is used with other keys than \
                 declared"
            ),
            Self::Subroutine(number) => write!(f, "there is no subroutine {number}"),
            Self::Unsupported(subr) => {
                write!(f, "{}() is not supported by this kernel", subr.name())
            }
            Self::Destructive(subr) => {
                write!(f, "{}() is destructive and needs -w", subr.name())
            }
            Self::Type(number) => write!(f, "type {number} is unknown"),
            Self::ValueSize(size) => write!(
                f,
                "a value of {size} bytes does not fit into a \
                 register"
            ),
            Self::Scope(number) => write!(f, "scope {number} is unknown"),
            Self::Kind(number) => write!(f, "kind {number} of variables is unknown"),
            Self::Number(number) => write!(f, "{number} is not a valid number of a variable"),
            Self::Flags(flags) => write!(f, "flags {flags:#x} are unknown"),
            Self::NoSize => f.write_str("the variable is passed by reference and has no size"),
            Self::Oversized(size) => write!(f, "{size} bytes exceed the limit of a variable"),
            Self::ChangedKind => f.write_str("an earlier program declares it with other keys"),
            Self::ChangedType => f.write_str("an earlier program declares it with another type"),
            Self::ChangedSize => f.write_str("an earlier program declares it with another size"),
            Self::TooManyVariables => f.write_str("too many variables; use fewer"),
            Self::NoRoomForValues => f.write_str(
                "the memory for values of variables is full; use \
                 fewer or smaller variables",
            ),
            Self::NoRoomForStrings => f.write_str(
                "the memory for strings is full; use fewer or \
                 shorter strings",
            ),
        }
    }
}
