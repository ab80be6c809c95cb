//! The table of rules: name, severity and message. The tests in `tests/unit/rules` break each rule once.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The check lacks information, and no defect is visible. With the kernel's own file, it knows.
    Note,
    /// It may be intended, or depends on a kernel whose file was not given.
    Warning,
    /// The kernel would refuse the module, or panic.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

macro_rules! rules {
    ($($rule:ident $level:ident $message:literal)*) => {
        /// A rule. Each `{}` in its message stands for a detail of the finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $message] $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// Returns its severity.
            pub const fn level(self) -> Level {
                match self { $(Self::$rule => Level::$level,)* }
            }

            /// Returns the message, with a `{}` for each detail.
            pub const fn message(self) -> &'static str {
                match self { $(Self::$rule => $message,)* }
            }
        }
    };
}

rules! {
    // The file.
    Unreadable Error "not a readable object file: {}"
    BrokenSeal Error
        "the contents do not match the checksum of the link: the file was changed; copy or build it again"
    OtherSystem Error "is a module for {}, not for {}; take --os {}"
    Header Error "{} is {}; {} takes {} only"
    SymbolTables Error "{} symbol tables; {} takes exactly one"
    SymbolStrings Error "the names of the symbols are not in a string table; {} reads them from there"
    SymbolCount Error "the first global symbol is number {}, and the table has {}; the file is damaged"
    TooManySymbols Warning "{} symbols; old releases of krtld number them in 16 bits: strip local ones"
    TooLarge Error "takes {} bytes of memory; kernels have room for modules of {} at most"

    // Sections.
    SectionType Error "of type {}, which {} leaves out or does not use"
    WritableCode Error "both writable and executable; the loader maps no memory so"
    Alignment Error "alignment {}; the loader computes addresses with it, it must be a power of two"
    AlignmentTooLarge Error
        "alignment {}; the loader's memory is aligned to {} at most, and the section would be elsewhere"
    ThreadLocal Error "thread-local storage; kernel modules have none"
    ConstructorsNotCalled Error "functions to be called at start or end; krtld calls _init and _fini only"
    Leftover Error "is for the link step, which would have used it up; link with `cargo sdt kmod`"
    Entries Error "{} bytes in entries of {}; krtld divides the one by the other, and entries have 24 bytes"

    // Sets.
    SplitSet Error "{} sections of this name; {}"
    SetNotInFile Error "{} bytes of a set, of which {} are in the file; its elements have to be"
    SetNotWritable Error "not writable; the records are linked and sorted in place"
    SetSize Error "{} bytes are not a whole number of {} ({} bytes each)"
    SetAlignment Error "alignment {} is too small for {} ({})"
    DeclaredTwice Error "the slice is declared {} times; linkme refuses to run then"
    Bound Error "{} is {}; FreeBSD's loader finds the set by it; refer to it (`.weak`)"
    BoundElsewhere Error "is not {} of section {}"
    NoSuchSet Error "undefined bound of section {}, which does not exist"

    // Segments and tables of a shared object.
    HeadersBehindFirstPage Error "program headers end at {}; FreeBSD's loader reads the first page only"
    SegmentCount Error "{} segments of type {}; FreeBSD's loader takes {}"
    Segment Error "segment {} {}"
    OutsideSegments Error "in no segment of its own protection, or in another place there than in the file"
    NoTable Error "no {} in the dynamic section; FreeBSD's loader needs it"
    TableOutside Error "{} is not all inside a segment"
    OtherTable Error "{} of the dynamic section is not section {}; the file is damaged"
    HashTable Error "the hash table {}; FreeBSD's loader finds symbols by it"
    RelocationNowhere Error "a relocation applies to address {}, where no section is loaded"

    // Relocations.
    ImplicitAddends Error "REL relocations; the loader takes RELA here"
    StrayRelocations Error "relocations that belong to no section or symbol table; the loader refuses them"
    RelocationsInMemory Error "relocations with address {}; krtld would read them there, where nothing is"
    RelocationsOf Error "by its name relocations of {}, but {}; the file is damaged"
    RelocationSymbol Error "relocation against symbol number {}, which is not in the symbol table"
    RelocationType Error "relocation {} against {}: {}"
    NullSymbol Error "relocation {} against symbol 0, the null symbol; krtld uses 0 as its address"
    RelocationOutside Error "relocation {} against {} reaches past the end of the section"
    RelocationTarget Error "relocation {} against {}{} points outside the symbol's section"
    RelocationUnloaded Error "relocation {} against {}, which is in {}, and that is not loaded"
    RelocationOfText Error "relocation {} against {} changes code; build with relocation-model=pic"
    RelocationTwice Error "relocation {} against {} overlaps the one before; one of them is lost"
    FieldNotZero Error "relocation against {}: the field holds {}; krtld adds to it, it must be 0"
    Call Error "call of {}{}: {}"
    MiddleOfFunction Error "points {} bytes into {}, where no function starts"

    // Code.
    Float Error "`{}` uses {}, which kernel code must not touch; build with soft-float"
    KernelRegister Error "`{}` writes {}, which is the kernel's; build with it reserved"
    MoreFloat Error "{} more such instructions"
    SavedFloat Warning "{} instructions use {}; the module calls {}, which is there for this"
    FbtEntry Warning
        "fbt takes {} for the function's entry, which not every call passes, or not first: its probes would be listed and \
         not fire; build with -enable-shrink-wrap=false, or C with -fno-shrink-wrap"

    // Symbols.
    SectionNumber Error "is in section {}, which is not there; the loader refuses the module, or crashes"
    SectionSymbol Error "a section's symbol, {} bytes behind its start: relocations by it would lead astray"
    SymbolOutside Error "{} its section, {}, of {} bytes; fbt reads there"
    SymbolUnloaded Error "a global symbol in {}, which is not loaded; the loader has no address for it"
    StrayFunction Error "a function {}; fbt reads it as code"
    Resolver Error
        "an indirect function (STT_GNU_IFUNC) {}; remove the attribute `ifunc`, or compile the module again"
    Common Error "a common symbol, for which the loader has no memory; compile with -fno-common"
    NotLookedFor Error "undefined and {}; {} looks for global and weak symbols by their names only"
    Unasked Note
        "{}, which {} not known here: give the kernel's own file with --kernel, or a list of its symbols with --symbols, \
         to have {} looked for: {}"
    Undefined Error "undefined, and {} {} not export it"
    UnaskedModule Warning
        "undefined, and not in {}; {} may have it: give that module's file with --kernel, too"
    NoDependency Error "undefined; {} exports it, and the module does not depend on that"
    NotInRelease Warning
        "undefined, and FreeBSD {} as it was released does not export it; --kernel FILE asks the kernel itself"
    CallsVariable Error
        "called, and a variable in {}: the call would execute data, and the kernel panics; call the function that the \
         variable holds, or none"
    MultiplyDefined Warning "the kernel exports it, too; krtld warns that it is multiply defined: make it local"
    OtherKernel Error "{}, which is to be asked for symbols, is for {}, and the module for {}"
    OtherVersion Error
        "{} is of __FreeBSD_version {}; the module is for {} to {}, so that this kernel would not load it"

    // FreeBSD: what the module says of itself, and what the kernel calls.
    NoModule Warning "no MODULE record in set_modmetadata_set; kldload would load it and run nothing"
    NoSysinit Warning "no SYSINIT in set_sysinit_set; the module's event handler would never be called"
    NoKernel Warning "no dependency on kernel; every release would take the module, to whatever effect"
    KernelVersions Warning
        "dependency on kernel {} to {}, preferably {}: take one major release from 10 to 15, as MODULE_DEPEND does, or \
         other kernels would load what they cannot run"
    OtherRelease Warning "for FreeBSD {}, which is not among those known here; judged as one for {}"
    Metadata Error "module metadata of {} {}; known is {}"
    FileName Warning "the file is {}, and its modules are {}: DTrace lists its probes by the file's name"
    FileNameOfProvider Error
        "the file is {}, and its modules are {}: its provider's probes would outlive the file; name them alike"
    SysInit Error "a struct sysinit of {} bytes; FreeBSD {} has one of {}"
    Registers Error "module_register_init for a record that {}; the kernel panics"
    NotConstructors Error
        "of functions to be called at start or end, by its name or type, but not made of their addresses"

    // FreeBSD: records in sets.
    NotAddress Error "{} is not the address of anything in this module"
    WeakAddress Error
        "{} is a weak symbol that is not defined here: if no module defines it, the loader makes it 0, and the kernel uses it"
    NotFunction Error "{} is not the address of a function"
    Unaligned Error "{} points to {}+{}, which is not aligned to 8 bytes; the record begins elsewhere"
    WrongMemory Error "{} points into {}, which is not {}"
    RecordOutside Error "not the {} bytes of {}"
    NotZero Error "{} is not 0, as the kernel takes it to be"
    NotRecord Error "{} is not the address of a record of {}"
    RecordVersion Error "{} record says size {}, this version's is {}"
    Name Error "{} name \"{}\" {}"
    NotNop Error "the bytes at the site, {}, are not the {}-byte nop {}"
    Unreachable Error "the site and its cold block {}: no jump can be patched in"
    ProbeVersion Error
        "sdt_probe record of version {}; FreeBSD {} knows {} only, and would write beyond the record"
    NoTracepoints Error "tracepoint records, which FreeBSD {} does not know: the sites would never fire"
    SameProbe Warning "another record of probe {}, like that at {}; the kernel would enable the first only"
    ArgumentIndices Error "the argument types of probe {} are {}, not one for each from 0 on"
    SitesDisagree Error "sites of one open provider's probe{} disagree about {}; make them agree"
    ProbeModule Warning
        "probe's module name \"{}\" is not empty, nor this module's: it is listed as another module's, and outlives this \
         one in old releases"
    DependsOnDtrace Warning
        "depends on dtrace, without a provider of its own: it would not load where there is no DTrace"
    NoSite Warning
        "provider {} has probes, or is declared, and no site fires any: nothing of it can ever be seen"

    // illumos.
    NoEntryPoint Error "there is no function {}; {}"
    NoFini Warning "there is no function _fini; the module can never be unloaded (EBUSY)"
    EntryPoint Error "must be a global function of the module's own text"
    Dynamic Error "{}; krtld cannot read what the module depends on"
    Dependency Error "dependency \"{}\" {}"
    ProbeRelocation Error
        "{} is used by relocation {}{}, which is not a call's (R_X86_64_PLT32-4); krtld overwrites five bytes there \
         whatever they are: do not take a probe's address"
    ProbeOutsideCode Error "{} is used in {}, which is not executable; krtld overwrites data there"
    NotACall Error
        "{}: the instruction is `{}`, not a call (e8); {}; fire it so that it cannot be a tail call"
    SharedSite Error "{}: another relocation applies to the same five bytes"
    ProbeDefined Error "a probe that is defined is a function call and no probe; leave it undefined"
    ProbeLocal Error
        "a local symbol; krtld resolves probes by global ones and leaves this one a call to 0"
    Hijacked Error
        "belongs to provider {}, by the prefix of its name; the module names only {} in .sdt_providers: rename the probe \
         or declare the provider"
    Merged Error
        "two probes would be one: {} and {}; rename one of them, or build with --route provider, where each has a provider \
         of its own"
    Arguments Error "{} has {} at one place, and {} at another; krtld makes one probe of both"
    Description Error "the line {} describes no probe; the module was made by another version of sdt-core"
    NotAnEnabledSite Error
        "an element of sdt_is_enabled is not the address of a probe's call; `_init` would read there"
    EnabledSymbol Error "is not where the bounds of sdt_is_enabled are; `_init` reads them there"
    EnabledBounds Error
        "{} pairs of words with the bounds of sdt_is_enabled, or others besides, where there is one pair; `_init` goes from \
         the one to the other"
}
