//! What can be wrong with a DOF.

use core::fmt;

use super::SectionKind;
use crate::reader::Truncated;

/// What is wrong, and at which byte of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DofError {
    /// Offset in the file.
    pub at: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// So many bytes were wanted, and there are not that many.
    Truncated(u64),
    /// Not a DOF.
    Magic,
    /// Not of this data model.
    Model(u8),
    /// Not of this byte order.
    Encoding(u8),
    /// A version of the format that is not known.
    Version(u8),
    /// A version of DIF that is not known.
    DifVersion(u8),
    /// More integer registers than there are.
    IntegerRegisters(u8),
    /// More tuple registers than there are.
    TupleRegisters(u8),
    /// Something where zeroes have to be.
    Padding,
    /// Flags that have no meaning.
    Flags(u32),
    /// A size that is less than what it says to hold, or more than it may be.
    Size(u64),
    /// More sections than are looked at.
    SectionCount(u32),
    /// An offset that is not a multiple of this.
    Alignment(u32),
    /// A section that has to be loaded for the program to be whole, of a kind that is not known.
    UnknownSection(u32),
    /// There is no section with this index.
    NoSection(u32),
    /// The section with this index is not of this kind, or is not loaded.
    WrongSection(u32, SectionKind),
    /// A section that kernels read, without the flag that loads it.
    NotLoaded(SectionKind),
    /// A section that no program has.
    NotForPrograms(SectionKind),
    /// A table whose size is not a multiple of its entries', or whose entries have the wrong size.
    EntrySize(u32),
    /// A table of strings that does not end with a zero.
    Unterminated,
    /// No string begins at this offset of the table, or it does not end.
    String(u64),
    /// A DIFO with two sections of this kind.
    Duplicate(SectionKind),
    /// A DIFO without a section of this kind.
    Missing(SectionKind),
}

impl From<Truncated> for DofError {
    #[cold]
    fn from(error: Truncated) -> Self {
        Self { at: error.at, problem: Problem::Truncated(error.wanted) }
    }
}

impl fmt::Display for DofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}: {}", self.at, self.problem)
    }
}

impl core::error::Error for DofError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated(wanted) => {
                write!(f, "{wanted} bytes wanted, and there are not that many")
            }
            Self::Magic => f.write_str("not a DOF"),
            Self::Model(model) => write!(f, "data model {model}, not that of 64 bits"),
            Self::Encoding(encoding) => write!(f, "byte order {encoding}, not little endian"),
            Self::Version(version) => write!(f, "version {version} is not known"),
            Self::DifVersion(version) => write!(f, "version {version} of DIF is not known"),
            Self::IntegerRegisters(count) => write!(f, "{count} integer registers are too many"),
            Self::TupleRegisters(count) => write!(f, "{count} tuple registers are too many"),
            Self::Padding => f.write_str("something where zeroes have to be"),
            Self::Flags(flags) => write!(f, "flags {flags:#x} have no meaning"),
            Self::Size(size) => write!(f, "a size of {size} bytes cannot be"),
            Self::SectionCount(count) => write!(f, "{count} sections are too many"),
            Self::Alignment(align) => write!(f, "not aligned to {align} bytes"),
            Self::UnknownSection(kind) => write!(f, "a section of kind {kind} cannot be loaded"),
            Self::NoSection(index) => write!(f, "there is no section {index}"),
            Self::WrongSection(index, kind) => {
                write!(f, "section {index} is not a loaded section of kind {}", kind.name())
            }
            Self::NotLoaded(kind) => {
                write!(f, "a section of kind {} without the flag that loads it", kind.name())
            }
            Self::NotForPrograms(kind) => {
                write!(f, "a program cannot have a section of kind {}", kind.name())
            }
            Self::Unterminated => f.write_str("a table of strings does not end with a zero"),
            Self::EntrySize(size) => write!(f, "entries of {size} bytes do not fit this table"),
            Self::String(offset) => write!(f, "no string at offset {offset} of the table"),
            Self::Duplicate(kind) => {
                write!(f, "a second section of kind {} in a DIFO", kind.name())
            }
            Self::Missing(kind) => write!(f, "a DIFO without a section of kind {}", kind.name()),
        }
    }
}
