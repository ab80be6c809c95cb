//! What can be wrong with a module for FreeBSD, besides what is wrong for any kernel: its segments and sets, what it says of
//! itself, and the records of its probes.

use crate::check::Level;
use crate::platform::FreeBsd;

/// What is wrong. The texts name the rule's owner and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
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
    /// A section is not where its segment is.
    #[error("in no segment of its own protection, or in another place there than in the file")]
    OutsideSegments,
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
    /// A word that must be an address may be 0.
    #[error(
        "{0} is a weak symbol that is not defined here: if nobody has it, the loader makes it 0, and the kernel uses it"
    )]
    WeakAddress(&'static str),
    /// A word that must be the address of a function is not one.
    #[error("{0} is not the address of a function")]
    NotFunction(&'static str),
    /// A section whose words the kernel calls has no words.
    #[error(
        "of functions to be called at start or end, by its name or type, but not made of their addresses"
    )]
    NotConstructors,
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
    /// The last word of a site's record is written when the module is attached.
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
    /// A symbol that, to what is known here, the kernels of this release do not have.
    #[error(
        "undefined, and FreeBSD {0} as it was released does not export it; --kernel FILE asks the kernel itself"
    )]
    NotInRelease(FreeBsd),
    /// Code calls a symbol that is a variable of the kernel's.
    #[error(
        "called, and a variable in {0}: the call would execute data, and the kernel panics; call the function that the \
         variable holds, or none"
    )]
    CallsVariable(String),
    /// An undefined symbol that the loader does not look for.
    #[error(
        "used, undefined and {0}; FreeBSD's loader looks for global and weak symbols by their names only"
    )]
    NotLookedFor(&'static str),
    /// A symbol of dtrace.ko's.
    #[error("undefined, and of dtrace.ko, on which the module does not depend")]
    NeedsDtrace,
    /// A probe that names another module than this one.
    #[error(
        "probe's module name \"{0}\" is not empty, nor this module's: it is listed as another module's, and outlives \
         this one in old releases"
    )]
    ProbeModule(String),
    /// The kernel would not take the module, by its version.
    #[error(
        "{file} is of __FreeBSD_version {found}; the module is for {minimum} to {maximum}, so that it would \
         not load it"
    )]
    OtherVersion {
        /// The kernel's file.
        file: String,
        /// Its version.
        found: u32,
        /// The lowest that the module takes.
        minimum: u32,
        /// The highest.
        maximum: u32,
    },
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
    /// The file's name is not a module's.
    #[error(
        "the file is {file}, and its modules are {modules}: {}",
        if *.own {
            "its provider's probes would outlive the file; name them alike"
        } else {
            "DTrace lists its probes by the file's name"
        }
    )]
    FileName {
        /// The file's name, without `.ko`.
        file: String,
        /// The names of its modules.
        modules: String,
        /// Whether it has a provider of its own.
        own: bool,
    },
    /// A module that does not say what release it is for, or one that is not known here.
    #[error("for FreeBSD {found}, which is not among those known here; judged as one for {judged}")]
    OtherRelease {
        /// The `__FreeBSD_version` it is for.
        found: u32,
        /// The release that it was judged for.
        judged: FreeBsd,
    },
    /// A relocation of text in a shared object.
    #[error("relocation {kind} against {symbol} changes code; build with relocation-model=pic")]
    RelocationOfText {
        /// Name of its type.
        kind: String,
        /// The symbol.
        symbol: String,
    },
    /// A table of a shared object is not where its section is.
    #[error("{table} of the dynamic section is not section {section}; the file is damaged")]
    OtherTable {
        /// The table's tag.
        table: &'static str,
        /// The section.
        section: &'static str,
    },
    /// A hash table that does not lead to its symbols.
    #[error("the hash table {0}; FreeBSD's loader finds symbols by it")]
    HashTable(&'static str),
    /// A SYSINIT that starts what is no module of the file's.
    #[error("module_register_init for what {0}; the kernel panics")]
    Registers(&'static str),
}

impl Problem {
    /// How bad it is.
    pub fn level(&self) -> Level {
        match self {
            Self::NotInRelease(_)
            | Self::ProbeModule(_)
            | Self::SameProbe { .. }
            | Self::FileName { own: false, .. }
            | Self::OtherRelease { .. }
            | Self::KernelVersions { .. }
            | Self::NoKernel
            | Self::NoModule
            | Self::NoSysinit
            | Self::DependsOnDtrace => Level::Warning,
            _ => Level::Error,
        }
    }
}
