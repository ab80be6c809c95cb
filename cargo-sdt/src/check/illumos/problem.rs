//! What can be wrong with a module for illumos, besides what is wrong for any kernel.

use crate::check::Level;

/// What is wrong. The texts name the rule's owner and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something in the header is not what krtld takes.
    #[error("{what} is {found}; krtld takes {expected} only")]
    Header {
        /// Field of the header.
        what: &'static str,
        /// Its value.
        found: u16,
        /// The value it must have.
        expected: &'static str,
    },
    /// More sections than section numbers in symbols.
    #[error("{0} sections; krtld knows no extended section numbers, link sections together")]
    TooManySections(usize),
    /// There must be exactly one symbol table.
    #[error("{0} symbol tables; krtld wants exactly one")]
    SymbolTables(usize),
    /// The symbol table's strings are not there.
    #[error("the symbol table's strings are not a string table; krtld reads names from it")]
    SymbolStrings,
    /// More symbols than older releases can number.
    #[error("{0} symbols; krtld numbered them in 16 bits, strip local ones")]
    TooManySymbols(usize),
    /// A section of a type whose contents krtld loads as if they were data.
    #[error("is to be loaded, but is of type {0:#x}; krtld loads it and does nothing else with it")]
    SectionType(u32),
    /// Constructors or destructors.
    #[error("functions to be called at start or end; krtld calls _init and _fini only")]
    Constructors,
    /// A section group.
    #[error("a section group; krtld keeps every member (link with --force-group-allocation)")]
    Group,
    /// Section numbers of symbols in a table of their own.
    #[error("extended section numbers; krtld does not read them")]
    ExtendedSections,
    /// A set is more than one section.
    #[error("{0} sections of this name; the bounds of a set are those of one section")]
    SplitSet(usize),
    /// A table's size or that of its entries is wrong.
    #[error(
        "{size} bytes in entries of {entry}; krtld divides the one by the other, and entries have 24 bytes"
    )]
    Entries {
        /// Bytes of the table.
        size: u64,
        /// Bytes of an entry, as the section says.
        entry: u64,
    },
    /// Relocations without explicit addends.
    #[error("REL relocations; krtld refuses the module")]
    ImplicitAddends,
    /// Relocations that use another symbol table, or apply to no section.
    #[error("relocations that belong to no section or not to the symbol table; krtld refuses them")]
    StrayRelocations,
    /// A relocation against a symbol that is not in the table.
    #[error("relocation against symbol number {0}, which is not in the symbol table")]
    RelocationSymbol(usize),
    /// A relocation against the null symbol.
    #[error("relocation {0} against symbol 0, the null symbol; krtld uses 0 as its address")]
    NoSymbol(String),
    /// A relocation of a type that krtld refuses or does wrong.
    #[error("relocation {kind} against {symbol}: {reason}")]
    RelocationType {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
        /// What krtld does with it, and what to do.
        reason: &'static str,
    },
    /// A relocation that would change bytes outside its section.
    #[error("relocation {kind} against {symbol} reaches past the end of the section")]
    RelocationOutside {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
    },
    /// A field that is relocated holds something already.
    #[error("relocation against {symbol}: the field holds {found}; krtld adds to it, it must be 0")]
    FieldNotZero {
        /// The symbol.
        symbol: String,
        /// What it holds.
        found: String,
    },
    /// A probe is not called but used otherwise.
    #[error(
        "{probe} is used by relocation {kind}{addend:+}, which is not a call's (R_X86_64_PLT32-4); krtld \
         overwrites five bytes there whatever they are: do not take a probe's address"
    )]
    ProbeRelocation {
        /// The probe's symbol.
        probe: String,
        /// Name of the relocation's type.
        kind: String,
        /// Its addend.
        addend: i64,
    },
    /// A probe fires from what is not code.
    #[error("{probe} is used in {section}, which is not executable; krtld overwrites data there")]
    ProbeOutsideCode {
        /// The probe's symbol.
        probe: String,
        /// The section.
        section: String,
    },
    /// The instruction at a site is not a call.
    #[error(
        "{probe}: the instruction is `{found}`, not a call (e8); {what}; fire it so that it cannot be a tail \
         call"
    )]
    NotACall {
        /// The probe's symbol.
        probe: String,
        /// The opcode that is there.
        found: String,
        /// What becomes of it.
        what: &'static str,
    },
    /// Two relocations at a site.
    #[error("{0}: another relocation applies to the same five bytes")]
    SharedSite(String),
    /// A probe's symbol is defined.
    #[error("a probe that is defined is a function call and no probe; leave it undefined")]
    ProbeDefined,
    /// A probe's symbol is local.
    #[error("a local symbol; krtld resolves probes by global ones and leaves this one a call to 0")]
    ProbeLocal,
    /// A name that DTrace would refuse, cut or confuse.
    #[error("probe name \"{name}\" {reason}")]
    ProbeName {
        /// The name, as DTrace would list it.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A probe belongs to a provider that the module does not name among its own.
    #[error(
        "belongs to provider {provider}, by the prefix of its name; the module names only {declared} in \
         .sdt_providers: rename the probe or declare the provider"
    )]
    Hijacked {
        /// The provider.
        provider: &'static str,
        /// The providers that are named.
        declared: String,
    },
    /// Two probes have one symbol.
    #[error(
        "two probes would be one: {one} and {other}; rename one of them, or build with --route provider, where each has a \
         provider of its own"
    )]
    Merged {
        /// One of them, with its arguments.
        one: String,
        /// The other.
        other: String,
    },
    /// A probe has other arguments at one place than at another.
    #[error(
        "{probe} has {one} at one place, and {other} at another; krtld makes one probe of both"
    )]
    Arguments {
        /// Provider and name.
        probe: String,
        /// What it has at one place.
        one: String,
        /// And at another.
        other: String,
    },
    /// The description of the probes is none.
    #[error(
        "the line {0:?} describes no probe; the module was made by another version of sdt-core"
    )]
    Description(String),
    /// One of the functions that the kernel calls is missing.
    #[error("there is no function {0}; {1}")]
    NoEntryPoint(&'static str, &'static str),
    /// One of the functions that the kernel calls is not a global function.
    #[error("must be a global function of the module's own text")]
    EntryPoint,
    /// A local symbol that is not there.
    #[error(
        "a local symbol that is not defined; krtld looks for it nowhere and refuses the module"
    )]
    LocalUndefined,
    /// A bound of a set that is not there.
    #[error(
        "undefined; krtld gives no bounds to sets: the link step has to (there is no section {0})"
    )]
    Bound(String),
    /// A common symbol.
    #[error("a common symbol; compile with -fno-common")]
    Common,
    /// The number of a section that is not there.
    #[error("is in section {0}, which is not there; krtld refuses the module")]
    SectionNumber(u16),
    /// A symbol of the kernel's is defined again.
    #[error("the kernel exports it, too; krtld warns that it is multiply defined: make it local")]
    MultiplyDefined,
    /// More than one dynamic section, or one without strings.
    #[error("{0}; krtld cannot read what the module depends on")]
    Dynamic(&'static str),
    /// A dependency that krtld would not find.
    #[error("dependency \"{name}\" {reason}")]
    Dependency {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An element of the set of is-enabled sites is not a site.
    #[error(
        "an element of sdt_is_enabled is not the address of a probe's call; `_init` would read there"
    )]
    NotAnEnabledSite,
    /// The bounds of the set of is-enabled sites are not there, or there is more than one pair.
    #[error(
        "{0} pairs of words with the bounds of sdt_is_enabled, or others besides, where there is one pair; `_init` goes \
         from the one to the other"
    )]
    EnabledBounds(usize),
}

impl Problem {
    /// How bad it is.
    pub fn level(&self) -> Level {
        match self {
            Self::MultiplyDefined | Self::TooManySymbols(_) | Self::NoEntryPoint("_fini", _) => {
                Level::Warning
            }
            _ => Level::Error,
        }
    }
}
