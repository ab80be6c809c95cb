//! What can be wrong with a module. What is wrong for one system alone is apart:
//! [FreeBSD's](super::freebsd::Problem), [illumos's](super::illumos::Problem).

use std::fmt;

use super::finding::Level;
use crate::platform::Os;

/// What is wrong. The texts name the rule's owner and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read as what it should be.
    #[error("not a readable object file: {0}")]
    Unreadable(String),
    /// The seal does not match the contents.
    #[error(
        "the contents do not match the checksum of the link: the file was changed; copy or build it again"
    )]
    BrokenSeal,
    /// A module for one system, judged as one for the other.
    #[error("is a module for {found}, not for {wanted}; take --os {found}")]
    OtherSystem {
        /// What it is for.
        found: Os,
        /// What it was to be for.
        wanted: Os,
    },
    /// Something in the header is not what the loader takes.
    #[error(
        "{what} is {found}; FreeBSD's loader{} takes {expected} only",
        if loader.is_empty() { String::new() } else { format!(" for {loader}") }
    )]
    Header {
        /// FreeBSD's name of the architecture, if it is known.
        loader: &'static str,
        /// Field of the header.
        what: &'static str,
        /// Its value.
        found: String,
        /// The value it must have.
        expected: &'static str,
    },
    /// There must be exactly one symbol table.
    #[error("{0} symbol tables; FreeBSD's loader wants exactly one")]
    SymbolTables(usize),
    /// A section is writable and executable.
    #[error("both writable and executable; the loader maps no memory so")]
    WritableCode,
    /// `sh_addralign` is 0 or not a power of two.
    #[error(
        "alignment {0}; FreeBSD's loader computes addresses with it, it must be a power of two"
    )]
    Alignment(u64),
    /// `sh_addralign` is more than the loader heeds.
    #[error(
        "alignment {found}; the loader's memory is aligned to {most} at most, and what it puts there would be elsewhere"
    )]
    AlignmentTooLarge {
        /// The alignment.
        found: u64,
        /// The largest one.
        most: u64,
    },
    /// More memory than a module can have.
    #[error("takes {size} bytes of memory; kernels have room for modules of {most} at most")]
    TooLarge {
        /// Bytes of everything that is loaded.
        size: u64,
        /// The most that are taken.
        most: u64,
    },
    /// Thread-local storage.
    #[error("thread-local storage; kernel modules have none")]
    ThreadLocal,
    /// A table that the loader looks for is not there.
    #[error("no {0} in the dynamic section; FreeBSD's loader needs it")]
    NoTable(&'static str),
    /// A table is not inside a segment, or not a whole number of entries.
    #[error("{0} is not all inside a segment")]
    TableOutside(&'static str),
    /// The bounds of a set are not there, or are not those of its section.
    #[error("{symbol} is {found}; FreeBSD's loader finds the set by it; refer to it (`.weak`)")]
    Bound {
        /// The symbol.
        symbol: String,
        /// What it is.
        found: &'static str,
    },
    /// A relocation applies to no section.
    #[error("a relocation applies to address {0:#x}, where no section is loaded")]
    RelocationNowhere(u64),
    /// A section of a type that the loader does not map.
    #[error("is to be loaded, but FreeBSD's loader does not map sections of type {0:#x}")]
    SectionType(u32),
    /// Relocations without explicit addends.
    #[error("REL relocations; FreeBSD takes RELA here")]
    ImplicitAddends,
    /// A relocation section that does not use the symbol table, or applies to no section.
    #[error("relocations that belong to no section or symbol table")]
    StrayRelocations,
    /// A relocation of a type that the loader refuses.
    #[error("relocation {kind} against {symbol}: FreeBSD's loader refuses it; {remedy}")]
    RelocationType {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A relocation that would change bytes outside its section.
    #[error("relocation {kind} against {symbol} reaches past the end of the section")]
    RelocationOutside {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
    },
    /// A relocation whose value is outside the section of its symbol, or does not fit.
    #[error("relocation {kind} against {symbol}{} points outside the symbol's section", Signed(*addend))]
    RelocationTarget {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
        /// The addend.
        addend: i64,
    },
    /// A relocation against a symbol that is not in the table.
    #[error("relocation against symbol number {0}, which is not in the symbol table")]
    RelocationSymbol(usize),
    /// An instruction uses registers that the kernel does not save.
    #[error("`{code}` uses {state}, which kernel code must not touch; build with soft-float")]
    Float {
        /// The instruction.
        code: String,
        /// What it uses.
        state: &'static str,
    },
    /// An instruction writes the register in which the kernel keeps the address of this CPU's data.
    #[error("`{code}` writes {register}, which is the kernel's; build with it reserved")]
    KernelRegister {
        /// The instruction.
        code: String,
        /// The register.
        register: &'static str,
    },
    /// More of the same.
    #[error("{0} more such instructions")]
    MoreFloat(usize),
    /// A set is more than one section.
    #[error("{0} sections of this name; FreeBSD's loader finds the first one only")]
    SplitSet(usize),
    /// A set that no loader loads.
    #[error("a set that is not to be loaded (SHF_ALLOC): nobody would find its elements")]
    SetNotLoaded,
    /// A section whose contents are compressed.
    #[error("is to be loaded, and compressed (SHF_COMPRESSED), which no kernel undoes")]
    Compressed,
    /// A section whose contents want more than its alignment.
    #[error("alignment {0}, and addresses of 8 bytes in it: they would be anywhere")]
    LowAlignment(u64),
    /// A symbol's section is one of the numbers that mean something else.
    #[error("is in section {0:#x}, a number that is reserved; the file is damaged")]
    ReservedSection(u16),
    /// A distance to a symbol that has no place.
    #[error(
        "relocation {kind} against {symbol}, which is a number and no place: there is no distance to it"
    )]
    RelocationAbsolute {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
    },
    /// A provider without a site.
    #[error(
        "provider {0} has probes, or is declared, and no site fires any: nothing of it can ever be seen"
    )]
    NoSite(String),
    /// A set's elements are not in the file.
    #[error("{size} bytes of a set, of which {found} are in the file; its elements have to be")]
    SetNotInFile {
        /// Its size.
        size: u64,
        /// How many bytes there are.
        found: u64,
    },
    /// Symbols of which nobody here knows whether there are such.
    #[error(
        "{}, which {} not known here: give the kernel's own file with --kernel, or a list of its symbols with \
         --symbols, to have {} looked for: {}",
        if .0.len() == 1 { "uses a symbol".to_owned() } else { format!("uses {} symbols", .0.len()) },
        if .0.len() == 1 { "is" } else { "are" },
        if .0.len() == 1 { "it" } else { "them" },
        .0.join(", ")
    )]
    Unasked(Vec<String>),
    /// A symbol that the kernel and the modules that were given do not have.
    #[error("undefined, and {asked} {} not export it", if *.many { "do" } else { "does" })]
    Undefined {
        /// The files.
        asked: String,
        /// Whether they are several.
        many: bool,
    },
    /// A symbol that may be one of a module that was not given.
    #[error(
        "undefined, and not in {asked}; {depends} may have it: give that module's file with --kernel, too"
    )]
    UnaskedModule {
        /// The files that were asked.
        asked: String,
        /// Modules that the module depends on, whose files were not given.
        depends: String,
    },
    /// A symbol of a module's that was given, and that the module does not depend on.
    #[error("undefined; {0} exports it, and the module does not depend on that")]
    NoDependency(String),
    /// A kernel's file is of another architecture than the module.
    #[error(
        "{file}, which is to be asked for symbols, is for {found}, and the module for {wanted}"
    )]
    OtherKernel {
        /// The file.
        file: String,
        /// What it is for.
        found: String,
        /// What the module is for.
        wanted: String,
    },
    /// A common symbol.
    #[error("a common symbol; FreeBSD's kernel is built without them")]
    Common,
    /// A section of a relocatable file has an address.
    #[error("has the address {0:#x}; in a relocatable file all sections are at 0 (link with -r)")]
    Address(u64),
    /// A section of an unknown type, loaded or not.
    #[error("of type {0:#x}, which is not known; the loader would leave out what is in it")]
    UnknownType(u32),
    /// Bytes of the file that are in no section.
    #[error("the {size} bytes at {offset:#x} of the file are in no section; it is damaged")]
    Gap {
        /// Where they are.
        offset: u64,
        /// How many there are.
        size: u64,
    },
    /// Two sections are in one place of the file.
    #[error("is where {0} is, too; the file is damaged")]
    Overlap(String),
    /// Relocations whose section is named for something else.
    #[error("by its name relocations of {expected}, but {found}; the file is damaged")]
    RelocationsOf {
        /// The section of the name.
        expected: String,
        /// What it is instead.
        found: String,
    },
    /// What one tool leaves for the next.
    #[error("is for the link step, which would have used it up; link with `cargo sdt kmod`")]
    Leftover,
    /// The symbol of a section is not at its start.
    #[error(
        "a section's symbol, {0:#x} bytes behind its start: what is relocated by it goes astray"
    )]
    SectionSymbol(u64),
    /// A symbol is not all in its section.
    #[error("{what} its section, {section}, of {size} bytes; fbt reads there")]
    SymbolOutside {
        /// What of it is where.
        what: String,
        /// The section.
        section: String,
        /// The section's size.
        size: u64,
    },
    /// A symbol of a binding or a type that there is not.
    #[error("of binding {binding} and type {kind}, which are not known; the file is damaged")]
    SymbolKind {
        /// The binding.
        binding: u8,
        /// The type.
        kind: u8,
    },
    /// A relocation against a symbol of a section that is not loaded.
    #[error("relocation {kind} against {symbol}, which is in {section}, and that is not loaded")]
    RelocationUnloaded {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
        /// The section.
        section: String,
    },
    /// A function is not in code.
    #[error("a function {0}; fbt reads it as code")]
    StrayFunction(String),
    /// A relocation overlaps another one.
    #[error("relocation {kind} against {symbol} overlaps the one before; one of them is lost")]
    RelocationTwice {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
    },
    /// A call that goes astray.
    #[error("call of {symbol}{}: {reason}", Signed(*distance))]
    Call {
        /// The function.
        symbol: String,
        /// How far behind its start.
        distance: i64,
        /// What is there.
        reason: &'static str,
    },
    /// A pointer in data to the middle of a function.
    #[error("points {offset:#x} bytes into {function}, where no function starts")]
    MiddleOfFunction {
        /// The function.
        function: String,
        /// How far.
        offset: u64,
    },
    /// A bound of a set in a relocatable file is defined, and not where the set is.
    #[error("is not {expected} of section {section}")]
    BoundElsewhere {
        /// The section.
        section: String,
        /// Where it should be.
        expected: &'static str,
    },
    /// Vector registers, by one who has the kernel save them.
    #[error("{0} instructions use {1}; the module calls {2}, which is there for this")]
    SavedFloat(usize, &'static str, String),
    /// The place that fbt takes for a function's entry is not passed by every call, or not first.
    #[error(
        "fbt takes {0:#x} for the function's entry, which not every call passes, or not first: its probes would be \
         listed and not fire; build with -enable-shrink-wrap=false, or C with -fno-shrink-wrap"
    )]
    FbtEntry(u64),
    /// The relocations of a section do not ascend.
    #[error(
        "this relocation applies in front of the one before it; compilers and linkers write relocations in ascending \
         order: the file may be damaged"
    )]
    RelocationOrder,
    /// A relocation of code that does not fill in an operand.
    #[error(
        "this relocation is of no operand of an instruction: it would overwrite others; the file is damaged"
    )]
    NotAnOperand,
    /// A call or branch without a relocation leads to no function or no instruction.
    #[error(
        "a call or branch to +{0:#x}, where no function or instruction begins; the file is damaged"
    )]
    BranchAstray(u64),
    /// Two functions have bytes in common.
    #[error(
        "this function begins inside the function {other}; the file is damaged, or the size of a function in assembly is \
         wrong"
    )]
    FunctionsOverlap {
        /// The other function.
        other: String,
        /// Whether the function also ends inside the other one, as a second entry point does.
        nested: bool,
    },
    /// A relocation makes an address inside a function of the kernel.
    #[error(
        "refers to {0}, inside a function of the kernel (the module calls it elsewhere); the file is damaged"
    )]
    InsideKernelFunction(String),
    /// A rule of FreeBSD's.
    #[error(transparent)]
    FreeBsd(#[from] super::freebsd::Problem),
    /// A rule of illumos's.
    #[error(transparent)]
    Illumos(#[from] super::illumos::Problem),
}

/// Shows a distance with its sign.
pub(super) struct Signed(pub(super) i64);

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        write!(f, "{sign}{:#x}", self.0.unsigned_abs())
    }
}

impl Problem {
    /// How bad it is: an error is what the kernel refuses or breaks by. What only the kernel knows that the module
    /// will meet is none, and neither is what nobody but the author can tell whether it was meant.
    pub fn level(&self) -> Level {
        match self {
            Self::Unasked(_) => Level::Note,
            Self::UnaskedModule { .. }
            | Self::LowAlignment(_)
            | Self::NoSite(_)
            | Self::SavedFloat(..)
            | Self::FbtEntry(_)
            | Self::RelocationOrder
            | Self::FunctionsOverlap { nested: true, .. } => Level::Warning,
            Self::FreeBsd(problem) => problem.level(),
            Self::Illumos(problem) => problem.level(),
            _ => Level::Error,
        }
    }
}
