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
    /// Not of the type that modules of this machine have.
    Type {
        /// The type.
        found: u16,
        /// The one it should be.
        expected: &'static str,
    },
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
    /// A name's offset is not inside its string table, or the name has no end there.
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
        /// Section and offset there, or offset in the file's memory.
        place: String,
        /// Index of its symbol.
        symbol: usize,
        /// Why not.
        error: RelocationError,
    },
    /// The program headers are not in the first page, or of the wrong size.
    ProgramHeaders,
    /// More segments to load than FreeBSD has room for (`MAXSEGS`).
    TooManySegments,
    /// No PT_DYNAMIC.
    NotDynamic,
    /// A PT_INTERP.
    Interpreter,
    /// A segment cannot be placed.
    Segment {
        /// Its number among those that are loaded.
        segment: usize,
        /// What is wrong with it.
        error: SegmentError,
    },
    /// No DT_HASH. (DT_GNU_HASH is not looked at.)
    NoHashTable,
    /// A table that the dynamic section has to name is missing.
    NoTable(&'static str),
    /// An entry of the dynamic section that cannot be used.
    Dynamic(&'static str),
    /// A table is not inside the file's memory.
    OutsideMemory(&'static str),
    /// A function's symbol says that it is where the file has no memory, and fbt looks at all functions.
    FunctionPlace {
        /// Its name.
        name: String,
    },
    /// A call leads to where no function starts.
    Call {
        /// Where the call is.
        place: String,
        /// Where it leads.
        target: u64,
    },
    /// A chain of the hash table has no end.
    EndlessChain,
}

impl LoadError {
    /// Whether FreeBSD, which trusts the file in this, would have panicked, or gone on with spoilt memory: it reads
    /// and writes by what it finds there. The rest it refuses.
    pub fn would_have_panicked(&self) -> bool {
        match self {
            Self::Name { .. }
            | Self::RelocationSection { .. }
            | Self::SymbolPlace { .. }
            | Self::NoTable(_)
            | Self::OutsideMemory(_)
            | Self::FunctionPlace { .. }
            | Self::Call { .. }
            | Self::EndlessChain => true,
            // 0 takes all sections to one place, and what is no power of two to odd ones.
            Self::Alignment { alignment, .. } => !alignment.is_power_of_two(),
            Self::Relocation { error, .. } => matches!(
                error,
                RelocationError::Resolver
                    | RelocationError::Range(_)
                    | RelocationError::Misaligned(_)
                    | RelocationError::Place
            ),
            Self::Segment { error, .. } => {
                matches!(error, SegmentError::Sizes | SegmentError::Order)
            }
            _ => false,
        }
    }
}

/// What is wrong with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentError {
    /// Its contents are not inside the file.
    Truncated,
    /// It has more contents than memory.
    Sizes,
    /// The first one does not start at 0, or one lies before the one before it.
    Order,
    /// It shares a page with the one before it, but not the protection.
    SharedPage,
    /// It is both writable and executable.
    WritableCode,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "is not inside the file, which may be truncated",
            Self::Sizes => "has more contents than memory",
            Self::Order => "is out of order",
            Self::SharedPage => "shares a page with the one before it",
            Self::WritableCode => "is both writable and executable",
        })
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("not an ELF file"),
            Self::Layout => f.write_str("Unsupported file layout"),
            Self::Version => f.write_str("Unsupported file version"),
            Self::Type { found, expected } => {
                write!(f, "unsupported file type {found}, not {expected}")
            }
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
            Self::Relocation { place, symbol, error } => {
                write!(f, "{error}, symbol index {symbol}, at {place}")
            }
            Self::ProgramHeaders => f.write_str("Unreadable program headers"),
            Self::TooManySegments => f.write_str("Too many sections"),
            Self::NotDynamic => f.write_str("Object is not dynamically-linked"),
            Self::Interpreter => f.write_str("file wants an interpreter, as programs do"),
            Self::Segment { segment, error } => write!(f, "segment {segment} {error}"),
            Self::NoHashTable => f.write_str("missing symbol hash table"),
            Self::NoTable(table) => write!(f, "missing {table}"),
            Self::Dynamic(entry) => write!(f, "dynamic section has {entry}"),
            Self::OutsideMemory(what) => write!(f, "{what} is not inside the file's memory"),
            Self::FunctionPlace { name } => {
                write!(
                    f,
                    "function {name} is not inside the file's memory, where fbt would read it"
                )
            }
            Self::Call { place, target } => {
                write!(f, "the call at {place} leads to {target:#x}, where no function starts")
            }
            Self::EndlessChain => f.write_str("a chain of the symbol hash table has no end"),
        }
    }
}

impl core::error::Error for LoadError {}
