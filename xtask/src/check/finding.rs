//! What can be wrong with a module.

use std::fmt;

use crate::platform::FreeBsd;

/// One breach of one rule, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What is wrong there, and what to do.
    pub problem: Problem,
}

/// A place in a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A section as a whole.
    Section(String),
    /// An offset in a section.
    Offset(String, u64),
    /// A symbol.
    Symbol(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Section(section) => write!(f, "{section}: "),
            Self::Offset(section, offset) => write!(f, "{section}+{offset:#x}: "),
            Self::Symbol(symbol) => write!(f, "symbol {symbol}: "),
        }
    }
}

/// What is wrong. The texts name the rule's owner and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read as what it should be.
    #[error("not a readable object file: {0}")]
    Unreadable(String),
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
    /// Thread-local storage.
    #[error("thread-local storage; kernel modules have none")]
    ThreadLocal,
    /// The table of program headers is not where the loader reads it.
    #[error("program headers end at {0:#x}; FreeBSD's loader reads the first page only")]
    HeadersBehindFirstPage(u64),
    /// The number of segments to load is not one that the loader takes.
    #[error("{0} segments to load; FreeBSD's loader takes 1 to 4")]
    SegmentCount(usize),
    /// A segment of a type that must not be there, or must be there once.
    #[error("{count} segments of type {kind}; FreeBSD's loader wants {expected}")]
    SegmentType {
        /// The type.
        kind: &'static str,
        /// How many there are.
        count: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A segment is not whole, out of order, or overlaps another one.
    #[error("segment {index} {reason}")]
    Segment {
        /// Its number among those that are loaded.
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A table that the loader looks for is not there.
    #[error("no {0} in the dynamic section; FreeBSD's loader needs it")]
    NoTable(&'static str),
    /// A table is not inside a segment, or not a whole number of entries.
    #[error("{0} is not all inside a segment")]
    TableOutside(&'static str),
    /// A section is not where its segment is.
    #[error("in no segment of its own protection, or in another place there than in the file")]
    OutsideSegments,
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
    #[error("relocation {kind} against {symbol}{addend:+#x} points outside the symbol's section")]
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
    /// A set's size is not a whole number of its elements.
    #[error("{size} bytes are not a whole number of {element} ({each} bytes each)")]
    SetSize {
        /// Its size.
        size: u64,
        /// What it holds.
        element: &'static str,
        /// Size of one.
        each: u64,
    },
    /// A set is not aligned for its elements.
    #[error("alignment {found} is too small for {element} ({expected})")]
    SetAlignment {
        /// Its alignment.
        found: u64,
        /// What it holds.
        element: &'static str,
        /// The alignment it needs.
        expected: u64,
    },
    /// A word that must be an address is not one.
    #[error("{0} is not the address of anything in this module")]
    NotAddress(&'static str),
    /// An address points to the wrong kind of memory.
    #[error("{what} points into {section}, which is not {expected}")]
    WrongMemory {
        /// Which address.
        what: &'static str,
        /// Where it points.
        section: String,
        /// What the memory must be.
        expected: &'static str,
    },
    /// A set of linkme's was declared more than once.
    #[error("the slice is declared {0} times; linkme refuses to run then")]
    DeclaredTwice(u64),
    /// The bytes at a patch point are not the nop that is patched.
    #[error("the bytes at the site, {found}, are not the {}-byte nop {nop}", nop.len().div_ceil(3))]
    NotNop {
        /// What is there.
        found: String,
        /// What should be there.
        nop: String,
    },
    /// A site and its cold block are in different sections, or too far apart for a jump.
    #[error("the site and its cold block {0}: no jump can be patched in")]
    Unreachable(String),
    /// The last word of a site's record belongs to the registry.
    #[error("the site's link is not 0")]
    LinkNotZero,
    /// A record's first word is not the size of its kind.
    #[error("{element} record says size {found}, this version's is {expected}")]
    RecordVersion {
        /// Which kind.
        element: &'static str,
        /// What it says.
        found: u32,
        /// What it must say.
        expected: u32,
    },
    /// A name that DTrace would refuse, cut or confuse.
    #[error("{element} name \"{name}\" {reason}")]
    Name {
        /// Whose name.
        element: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A record of the kernel's sdt is not of its version.
    #[error(
        "sdt_probe record of version {found}; FreeBSD {release} knows {expected} only, and would write \
         beyond the record"
    )]
    ProbeVersion {
        /// What it says.
        found: u32,
        /// The release that the module is for.
        release: FreeBsd,
        /// What it must say.
        expected: u64,
    },
    /// Tracepoint records for a release without them.
    #[error("tracepoint records, which FreeBSD {0} does not know: the sites would never fire")]
    NoTracepoints(FreeBsd),
    /// An address is not that of the start of a record in a set.
    #[error("{what} is not the address of a record of {set}")]
    NotRecord {
        /// Which address.
        what: &'static str,
        /// The set's section.
        set: &'static str,
    },
    /// A record reaches past the end of its section, or is not in the file.
    #[error("not the {size} bytes of {what}")]
    RecordOutside {
        /// What the record is.
        what: &'static str,
        /// Its size.
        size: u64,
    },
    /// Something that only the kernel writes is not 0 before.
    #[error("{0} is not 0, as the kernel takes it to be")]
    NotZero(&'static str),
    /// Two records of one probe.
    #[error(
        "another record of probe {probe}, like {first}; the kernel would enable the first only"
    )]
    SameProbe {
        /// The probe, as DTrace lists it.
        probe: String,
        /// The place of the other record.
        first: String,
    },
    /// Argument types of a probe leave an argument out, or say it twice.
    #[error("the argument types of probe {probe} are {found}, not one for each from 0 on")]
    ArgumentIndices {
        /// The probe, as DTrace lists it.
        probe: String,
        /// The indices that there are.
        found: String,
    },
    /// Sites of one probe disagree about its arguments.
    #[error("sites of one open provider's probe{probe} disagree about {what}; make them agree")]
    SitesDisagree {
        /// The probe, if it is known which.
        probe: String,
        /// What they disagree about.
        what: String,
    },
    /// A native module that depends on dtrace.
    #[error(
        "depends on dtrace, without a provider of its own: it would not load where there is no DTrace"
    )]
    DependsOnDtrace,
    /// A symbol that the kernels of this release do not have.
    #[error("undefined, and FreeBSD {0} does not export it")]
    NotInRelease(FreeBsd),
    /// A symbol of dtrace.ko's.
    #[error("undefined, and of dtrace.ko, on which the module does not depend")]
    NeedsDtrace,
    /// A symbol that no kernel exports.
    #[error("undefined, and not on the list of symbols that FreeBSD's kernel and dtrace.ko export")]
    Undefined,
    /// A common symbol.
    #[error("a common symbol; FreeBSD's kernel is built without them")]
    Common,
    /// A start or stop symbol of a section that is not there.
    #[error("there is no section {0}")]
    NoSuchSet(String),
    /// There is no module in the file.
    #[error("no MODULE record in set_modmetadata_set; kldload would load it and run nothing")]
    NoModule,
    /// A metadata record of an unknown version or type.
    #[error("module metadata of {what} {found}; known is {expected}")]
    Metadata {
        /// Field of the record.
        what: &'static str,
        /// Its value.
        found: i32,
        /// What it may be.
        expected: &'static str,
    },
    /// Nothing says for which kernels the module is.
    #[error("no dependency on kernel; every release would take the module, to whatever effect")]
    NoKernel,
    /// The kernels that a module depends on are not those of one release.
    #[error(
        "dependency on kernel {minimum} to {maximum}, preferably {preferred}: take one major release from 10 \
         to 15, as MODULE_DEPEND does, or other kernels would load what they cannot run"
    )]
    KernelVersions {
        /// Lowest `__FreeBSD_version`.
        minimum: u32,
        /// The one it says that it was built for.
        preferred: u32,
        /// Highest.
        maximum: u32,
    },
    /// A struct sysinit in the form of other releases.
    #[error("a struct sysinit of {found} bytes; FreeBSD {release} has one of {expected}")]
    SysInit {
        /// The size of this form.
        found: u64,
        /// The release that the module is for.
        release: FreeBsd,
        /// The size of its form.
        expected: u64,
    },
    /// There is a MODULE record, but no SYSINIT.
    #[error("no SYSINIT in set_sysinit_set; the module's event handler would never be called")]
    NoSysinit,
    /// A rule of illumos's.
    #[error(transparent)]
    Illumos(#[from] super::illumos::Problem),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.problem)
    }
}

/// Findings as they are made.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn file(&mut self, problem: Problem) {
        self.0.push(Finding { place: Place::File, problem });
    }

    pub(crate) fn section(&mut self, section: &str, problem: Problem) {
        self.0.push(Finding { place: Place::Section(section.into()), problem });
    }

    pub(crate) fn offset(&mut self, section: &str, offset: u64, problem: Problem) {
        self.0.push(Finding { place: Place::Offset(section.into(), offset), problem });
    }

    pub(crate) fn symbol(&mut self, symbol: &str, problem: Problem) {
        self.0.push(Finding { place: Place::Symbol(symbol.into()), problem });
    }
}
