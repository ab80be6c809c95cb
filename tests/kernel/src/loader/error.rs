//! Why a file is refused, in FreeBSD's words where it has some.

use alloc::string::String;
use core::fmt;

use super::relocate::RelocationError;

/// Why a file cannot be loaded. To the one who asked, all of them are `ENOEXEC`, as
/// `linker_load_file` makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// It does not start as an ELF file does.
    NotElf,
    /// Not 64-bit, or not little-endian.
    Layout,
    /// Not version 1 of ELF.
    Version,
    /// Not ET_REL.
    Type(u16),
    /// For another machine.
    Machine(u16),
    /// The section header table is missing, of the wrong entry size, or not inside the file.
    SectionTable,
    /// No section that takes memory.
    NoContents,
    /// Not exactly one symbol table.
    SymbolTables(usize),
    /// The symbol table's strings are not a string table.
    SymbolStrings,
    /// A table has no whole number of entries.
    TableSize {
        /// Index of its section.
        section: usize,
    },
    /// A section's contents are not inside the file.
    Truncated {
        /// Index of the section.
        section: usize,
    },
    /// A name's offset is not inside its string table, or the name has no end there, or it is not
    /// text.
    Name {
        /// Index of the section or symbol that has the name.
        index: usize,
    },
    /// An alignment of 0 (which breaks FreeBSD's layout), that is no power of two, or of more than a
    /// page.
    Alignment {
        /// The section's name.
        section: String,
        /// Its alignment.
        alignment: u64,
    },
    /// Both writable and executable.
    WritableCode {
        /// The section's name.
        section: String,
    },
    /// More memory than the bench has for one module.
    TooLarge,
    /// A relocation section is for a section that is not loaded, or of a kind this machine has not.
    RelocationSection {
        /// Index of the relocation section.
        section: usize,
    },
    /// A relocation has a symbol index beyond the table.
    SymbolIndex {
        /// The index.
        index: usize,
    },
    /// A symbol that is used lies in a section that is not loaded, beyond its section's end, or in
    /// the common block.
    SymbolPlace {
        /// Its name.
        name: String,
    },
    /// Nobody defines a symbol.
    Undefined {
        /// Its name.
        name: String,
    },
    /// A relocation cannot be done.
    Relocation {
        /// Name of the section it is in.
        section: String,
        /// Offset there.
        offset: u64,
        /// Index of its symbol.
        symbol: usize,
        /// Why not.
        error: RelocationError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("not an ELF file"),
            Self::Layout => f.write_str("Unsupported file layout"),
            Self::Version => f.write_str("Unsupported file version"),
            Self::Type(kind) => write!(f, "unsupported file type {kind}, not ET_REL"),
            Self::Machine(machine) => write!(f, "Unsupported machine {machine}"),
            Self::SectionTable => f.write_str("no section header table, or not inside the file"),
            Self::NoContents => f.write_str("file has no contents"),
            Self::SymbolTables(count) => {
                write!(f, "file must have exactly one symbol table, not {count}")
            }
            Self::SymbolStrings => f.write_str("file has invalid symbol strings"),
            Self::TableSize { section } => {
                write!(f, "section {section} has no whole number of entries")
            }
            Self::Truncated { section } => {
                write!(f, "section {section} is not inside the file, which may be truncated")
            }
            Self::Name { index } => write!(f, "entry {index} has a name outside its string table"),
            Self::Alignment { section, alignment } => {
                write!(f, "section {section} has the alignment {alignment}")
            }
            Self::WritableCode { section } => {
                write!(f, "section {section} is both writable and executable")
            }
            Self::TooLarge => f.write_str("file needs more memory than there is for a module"),
            Self::RelocationSection { section } => {
                write!(f, "relocation section {section} is of a kind that cannot be used")
            }
            Self::SymbolIndex { index } => write!(f, "there is no symbol with index {index}"),
            Self::SymbolPlace { name } => {
                write!(f, "symbol {name} is not inside a section that is loaded")
            }
            Self::Undefined { name } => write!(f, "symbol {name} undefined"),
            Self::Relocation { section, offset, symbol, error } => {
                write!(f, "{error}, symbol index {symbol}, at {section}+{offset:#x}")
            }
        }
    }
}

impl core::error::Error for LoadError {}
