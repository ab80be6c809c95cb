//! The reasons for which the loader refuses a file. If FreeBSD has a message for the reason, the text is the same.

use alloc::string::String;

use thiserror::Error;

use super::relocate::RelocationError;

/// Why a file cannot be loaded. `linker_load_file` returns `ENOEXEC` to the caller for all of them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum LoadError {
    #[error("not an ELF file")]
    NotElf,
    /// Not 64-bit, or not little-endian.
    #[error("Unsupported file layout")]
    Layout,
    #[error("Unsupported file version")]
    Version,
    #[error("unsupported file type {found}, not {expected}")]
    Type { found: u16, expected: &'static str },
    #[error("Unsupported machine {0}")]
    Machine(u16),
    #[error("no section header table, or not inside the file")]
    SectionTable,
    /// The file has no section that occupies memory.
    #[error("file has no contents")]
    NoContents,
    #[error("file must have exactly one symbol table, not {0}")]
    SymbolTables(usize),
    #[error("file has invalid symbol strings")]
    SymbolStrings,
    #[error("section {section} has no whole number of entries")]
    TableSize { section: usize },
    #[error("section {section} is not inside the file, which may be truncated")]
    Truncated { section: usize },
    /// `index` is the index of a section or of a symbol.
    #[error("entry {index} has a name outside its string table")]
    Name { index: usize },
    /// The alignment is 0 (which breaks FreeBSD's layout), is not a power of two, or is greater than a page.
    #[error("section {section} has the alignment {alignment}")]
    Alignment { section: String, alignment: u64 },
    #[error("section {section} is both writable and executable")]
    WritableCode { section: String },
    #[error("file needs more memory than there is for a module")]
    TooLarge,
    #[error("relocation section {section} is SHT_REL, or is for a section that is not loaded")]
    RelocationSection { section: usize },
    #[error("there is no symbol with index {index}")]
    SymbolIndex { index: usize },
    /// The symbol is in a section that is not loaded, is beyond the end of its section, or is a common symbol.
    #[error("symbol {name} is not inside a section that is loaded")]
    SymbolPlace { name: String },
    #[error("symbol {name} undefined")]
    Undefined { name: String },
    /// `place` is a section and an offset there, or an offset in the file's memory.
    #[error("{error}, symbol index {symbol}, at {place}")]
    Relocation { place: String, symbol: usize, error: RelocationError },
    /// The program header table is not in the first page, or has the wrong size.
    #[error("Unreadable program headers")]
    ProgramHeaders,
    /// More segments to load than FreeBSD has room for (`MAXSEGS`).
    #[error("Too many sections")]
    TooManySegments,
    #[error("Object is not dynamically-linked")]
    NotDynamic,
    #[error("file wants an interpreter, as programs do")]
    Interpreter,
    /// `segment` is the index among the loaded segments.
    #[error("segment {segment} {error}")]
    Segment { segment: usize, error: SegmentError },
    /// The file has no `DT_HASH`. FreeBSD does not use `DT_GNU_HASH`.
    #[error("missing symbol hash table")]
    NoHashTable,
    #[error("missing {0}")]
    NoTable(&'static str),
    #[error("dynamic section has {0}")]
    Dynamic(&'static str),
    #[error("{0} is not inside the file's memory")]
    OutsideMemory(&'static str),
    #[error("function {name} is not inside the file's memory, where fbt would read it")]
    FunctionPlace { name: String },
    #[error("the call at {place} leads to {target:#x}, where no function starts")]
    Call { place: String, target: u64 },
    #[error("a chain of the symbol hash table has no end")]
    EndlessChain,
}

impl LoadError {
    /// Returns whether FreeBSD, which does not check this, would have panicked or corrupted memory.
    ///
    /// FreeBSD refuses the files with the other errors, too.
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
            // 0 places all sections at one address, and other numbers that are no power of two misalign them.
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

/// Why a segment cannot be placed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SegmentError {
    #[error("is not inside the file, which may be truncated")]
    Truncated,
    #[error("is larger in the file than in memory")]
    Sizes,
    /// The first one does not start at 0, or one lies before its predecessor.
    #[error("is out of order")]
    Order,
    /// The two segments have different protections.
    #[error("shares a page with the one before it")]
    SharedPage,
    #[error("is both writable and executable")]
    WritableCode,
}
