//! Errors in a DOF.

use core::fmt;

use super::SectionKind;
use crate::reader::Truncated;

/// An error in a DOF, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DofError {
    /// Offset in the file.
    pub at: u64,
    /// The error.
    pub problem: Problem,
}

/// The kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Fewer than this number of bytes are left.
    Truncated(u64),
    /// The magic bytes are missing.
    Magic,
    /// An unsupported data model.
    Model(u8),
    /// An unsupported byte order.
    Encoding(u8),
    /// An unsupported version of the format.
    Version(u8),
    /// An unsupported version of DIF.
    DifVersion(u8),
    /// More integer registers than the limit.
    IntegerRegisters(u8),
    /// More tuple registers than the limit.
    TupleRegisters(u8),
    /// Reserved bytes are not zero.
    Padding,
    /// Unknown flags.
    Flags(u32),
    /// A size that is smaller than the contents, or larger than the limit.
    Size(u64),
    /// More sections than the limit.
    SectionCount(u32),
    /// An offset that is not a multiple of this alignment.
    Alignment(u32),
    /// A section of an unknown kind that must be loaded.
    UnknownSection(u32),
    /// There is no section with this index.
    NoSection(u32),
    /// The section with this index is not of this kind, or is not loaded.
    WrongSection(u32, SectionKind),
    /// A section that kernels read lacks the flag that loads it.
    NotLoaded(SectionKind),
    /// A section that a program cannot contain.
    NotForPrograms(SectionKind),
    /// A table whose size is not a multiple of its entry size, or whose entries have the wrong size.
    EntrySize(u32),
    /// A table of strings that does not end with a zero.
    Unterminated,
    /// The offset is outside the string table, or the string there has no terminating NUL.
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
                write!(f, "fewer than {wanted} bytes are left")
            }
            Self::Magic => f.write_str("the magic bytes of DOF are missing"),
            Self::Model(model) => write!(
                f,
                "data model {model} is not supported, only that of 64 \
                 bits"
            ),
            Self::Encoding(encoding) => write!(
                f,
                "byte order {encoding} is not supported, only \
                 little endian"
            ),
            Self::Version(version) => write!(f, "version {version} of DOF is not supported"),
            Self::DifVersion(version) => write!(f, "version {version} of DIF is not supported"),
            Self::IntegerRegisters(count) => {
                write!(f, "{count} integer registers exceed the limit")
            }
            Self::TupleRegisters(count) => write!(f, "{count} tuple registers exceed the limit"),
            Self::Padding => f.write_str("reserved bytes are not zero"),
            Self::Flags(flags) => write!(f, "flags {flags:#x} are unknown"),
            Self::Size(size) => write!(f, "a size of {size} bytes is outside of the limits"),
            Self::SectionCount(count) => write!(f, "{count} sections exceed the limit"),
            Self::Alignment(align) => write!(f, "not aligned to {align} bytes"),
            Self::UnknownSection(kind) => write!(
                f,
                "a section that must be loaded has the unknown \
                 kind {kind}"
            ),
            Self::NoSection(index) => write!(f, "there is no section {index}"),
            Self::WrongSection(index, kind) => {
                write!(f, "section {index} is not a loaded section of kind {}", kind.name())
            }
            Self::NotLoaded(kind) => {
                write!(f, "a section of kind {} lacks the flag that loads it", kind.name())
            }
            Self::NotForPrograms(kind) => {
                write!(f, "a program cannot have a section of kind {}", kind.name())
            }
            Self::Unterminated => f.write_str("the string table does not end with a zero"),
            Self::EntrySize(size) => write!(f, "entries of {size} bytes do not fit this table"),
            Self::String(offset) => write!(f, "the string table has no string at offset {offset}"),
            Self::Duplicate(kind) => {
                write!(f, "the DIFO has two sections of kind {}", kind.name())
            }
            Self::Missing(kind) => write!(f, "the DIFO has no section of kind {}", kind.name()),
        }
    }
}
