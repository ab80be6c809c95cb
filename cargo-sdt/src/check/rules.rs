//! The table of rules: name, severity and message. The tests in `tests/unit/rules` break each rule once.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The check lacks information, and no defect is visible. With the kernel's own file, the check can decide.
    Note,
    /// The finding may be intended, or depends on a kernel whose file was not given.
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
    OtherSystem Error "is a module for {}, not for {}; use --os {}"
    Header Error "{} is {}; {} supports {} only"
    SymbolTables Error "{} symbol tables; {} requires exactly one"
    SymbolStrings Error "the names of the symbols are not in a string table, from which {} reads \
        them"
    SymbolCount Error "the first global symbol is number {}, and the table has {}; the file is damaged"
    TooManySymbols Warning "{} symbols; old releases of krtld use 16-bit symbol numbers: strip \
        local symbols"
    TooLarge Error "needs {} bytes of memory; kernels load modules of at most {}"

    // Sections.
    SectionType Error "of type {}, which {} ignores or does not load"
    WritableCode Error "both writable and executable; the loader refuses to map such memory"
    Alignment Error "alignment {}; it must be a power of two, because the loader computes \
        addresses with it"
    AlignmentTooLarge Error
        "alignment {}; the loader aligns memory to at most {}, so the section would be misaligned"
    ThreadLocal Error "thread-local storage; kernel modules cannot have it"
    ConstructorsNotCalled Error "a list of constructors or destructors; krtld calls only _init and \
        _fini"
    Leftover Error "is an input of the link step, which removes it; link with `cargo sdt kmod`"
    Entries Error "{} bytes in entries of {}; entries must have 24 bytes, because krtld divides by \
        their size"

    // Sets.
    SplitSet Error "{} sections of this name; {}"
    SetNotInFile Error "{} bytes of a set, of which {} are in the file; all elements must be in \
        the file"
    SetNotWritable Error "not writable; the kernel links and sorts the records in place"
    SetSize Error "{} bytes are not a multiple of the size of {} ({} bytes each)"
    SetAlignment Error "alignment {} is too small for {} ({})"
    DeclaredTwice Error "the slice is declared {} times, which linkme refuses at run time; declare \
        it once"
    Bound Error "{} is {}; FreeBSD's loader finds the set by this symbol; refer to it (`.weak`)"
    BoundElsewhere Error "is not {} of section {}"
    NoSuchSet Error "undefined bound of section {}, which does not exist"

    // Segments and tables of a shared object.
    HeadersBehindFirstPage Error "program headers end at {}; FreeBSD's loader reads the first page only"
    SegmentCount Error "{} segments of type {}; FreeBSD's loader supports {}"
    Segment Error "segment {} {}"
    OutsideSegments Error "in no segment of its protection, or at another place in the segment \
        than in the file"
    NoTable Error "no {} in the dynamic section; FreeBSD's loader requires it"
    TableOutside Error "{} is not completely inside a segment"
    OtherTable Error "{} of the dynamic section is not section {}; the file is damaged"
    HashTable Error "the hash table {}; FreeBSD's loader looks up symbols in it"
    RelocationNowhere Error "a relocation applies to address {}, where no section is loaded"

    // Relocations.
    ImplicitAddends Error "REL relocations; the loader supports only RELA on this architecture"
    StrayRelocations Error "relocations without a section or symbol table; the loader refuses them"
    RelocationsInMemory Error "relocations with address {}; krtld would read them at that address, \
        which is not mapped"
    RelocationsOf Error "the name says relocations of {}, but {}; the file is damaged"
    RelocationSymbol Error "relocation against symbol number {}, which is not in the symbol table"
    RelocationType Error "relocation {} against {}: {}"
    NullSymbol Error "relocation {} against symbol 0, the null symbol; krtld uses 0 as its address"
    RelocationOutside Error "relocation {} against {} reaches past the end of the section"
    RelocationTarget Error "relocation {} against {}{} points outside the symbol's section"
    RelocationUnloaded Error "relocation {} against {}, which is in {}, a section that is not \
        loaded"
    RelocationOfText Error "relocation {} against {} changes code; build with relocation-model=pic"
    RelocationTwice Error "relocation {} against {} overlaps the previous one; one of them is lost"
    FieldNotZero Error "relocation against {}: the field is {}; it must be 0, because krtld adds \
        to it"
    Call Error "call of {}{}: {}"
    MiddleOfFunction Error "points {} bytes into {}, where no function starts"

    // Code.
    Float Error "`{}` uses {}, which kernel code must not touch; build with soft-float"
    KernelRegister Error "`{}` writes {}, a register that the kernel reserves; use the target \
        files of cargo-sdt"
    MoreFloat Error "{} more such instructions"
    SavedFloat Warning "{} instructions use {}; the module calls {}, which allows this"
    FbtEntry Warning
        "fbt uses {} as the entry of the function, but not every call executes it, or not first: \
         fbt would list probes that do not fire; build with -enable-shrink-wrap=false, or C with \
         -fno-shrink-wrap"

    // Symbols.
    SectionNumber Error "is in section {}, which does not exist; the loader refuses the module, or \
        crashes"
    SectionSymbol Error "a section symbol {} bytes after the start of the section: relocations \
        with it would be wrong"
    SymbolOutside Error "{} its section, {}, of {} bytes; fbt reads there"
    SymbolUnloaded Error "a global symbol in {}, which is not loaded; the loader has no address for it"
    StrayFunction Error "a function {}; fbt would disassemble it"
    Resolver Error
        "an indirect function (STT_GNU_IFUNC) {}; remove the attribute `ifunc`, or compile the module again"
    Common Error "a common symbol, for which the loader allocates no memory; compile with \
        -fno-common"
    NotLookedFor Error "undefined and {}; {} looks up only global and weak symbols"
    Unasked Note
        "{}, which {} not known here: name the kernel's file with --kernel, or a list of its \
         symbols with --symbols, to check {}: {}"
    Undefined Error "undefined, and {} {} not export it"
    UnaskedModule Warning
        "undefined, and not in {}; {} may define it: name the file of that module with --kernel, \
         too"
    NoDependency Error "undefined; {} exports it, but is not a dependency of the module"
    NotInRelease Warning
        "undefined, and not exported by the released FreeBSD {}; check your own kernel with \
         --kernel FILE"
    CallsVariable Error
        "called, but it is a variable in {}: the call would execute data and panic the kernel; \
         call the function that the variable points to"
    MultiplyDefined Warning "the kernel exports it, too; krtld warns that it is multiply defined: make it local"
    OtherKernel Error "the kernel file {} is for {}, and the module for {}"
    OtherVersion Error
        "{} has __FreeBSD_version {}; the module is for {} to {}, so this kernel would not load it"

    // FreeBSD: metadata of the module, and functions that the kernel calls.
    NoModule Warning "no MODULE record in set_modmetadata_set; kldload would load the file and run \
        nothing"
    NoSysinit Warning "no SYSINIT in set_sysinit_set; the module's event handler would never be called"
    NoKernel Warning "no dependency on kernel; every release would load the module, even if it \
        cannot run it"
    KernelVersions Warning
        "dependency on kernel {} to {}, preferably {}: depend on one major release from 10 to 15, \
         as MODULE_DEPEND does, or other kernels would load a module that they cannot run"
    OtherRelease Warning "for FreeBSD {}, which this version of cargo-sdt does not know; checked \
        as a module for {}"
    Metadata Error "module metadata of {} {}; the known values are {}"
    FileName Warning "the file is {}, and its modules are {}: DTrace lists its probes by the file's name"
    FileNameOfProvider Error
        "the file is {}, and its modules are {}: its provider's probes would outlive the file; \
         give both the same name"
    SysInit Error "a struct sysinit of {} bytes; on FreeBSD {} it has {}"
    Registers Error "module_register_init for a record that {}; the kernel panics"
    NotConstructors Error
        "a list of constructors or destructors, by its name or type, but its elements are not \
         addresses of functions"

    // FreeBSD: records in sets.
    NotAddress Error "{} is not the address of anything in this module"
    WeakAddress Error
        "{} is a weak undefined symbol: if no module defines it, the loader sets it to 0, and the \
         kernel uses that address"
    NotFunction Error "{} is not the address of a function"
    Unaligned Error "{} points to {}+{}, which is not aligned to 8 bytes, so no record begins there"
    WrongMemory Error "{} points into {}, which is not {}"
    RecordOutside Error "not the {} bytes of {}"
    NotZero Error "{} is not 0, and the kernel assumes that it is"
    NotRecord Error "{} is not the address of a record of {}"
    RecordVersion Error "{} record has size {}, and this version uses {}; build the module with \
        the sdt-core of this release"
    Name Error "{} name \"{}\" {}"
    NotNop Error "the bytes at the site, {}, are not the {}-byte nop {}"
    Unreachable Error "the site and its cold block {}, so the site cannot become a jump"
    ProbeVersion Error
        "sdt_probe record of version {}; FreeBSD {} supports only {}, and would write beyond the \
         record"
    NoTracepoints Error "tracepoint records, which FreeBSD {} does not support: the sites would \
        never fire"
    SameProbe Warning "another record of probe {}, like the one at {}; the kernel would enable \
        only the first"
    ArgumentIndices Error "the argument types of probe {} are {}, and must be numbered from 0 \
        without gaps"
    SitesDisagree Error "sites of one open provider's probe{} disagree about {}; make them agree"
    ProbeModule Warning
        "the probe's module name \"{}\" is neither empty nor the name of this module: DTrace lists \
         the probe as another module's, and old releases keep it after this module is unloaded"
    DependsOnDtrace Warning
        "depends on dtrace without having its own provider: it would not load on a kernel without \
         DTrace"
    NoSite Warning
        "provider {} is declared or has probes, but no site fires any of them, so it can never be \
         traced"

    // illumos.
    NoEntryPoint Error "there is no function {}; {}"
    NoFini Warning "there is no function _fini; the module can never be unloaded (EBUSY)"
    EntryPoint Error "must be a global function in the text of the module"
    Dynamic Error "{}; krtld cannot read the dependencies of the module"
    Dependency Error "dependency \"{}\" {}"
    ProbeRelocation Error
        "{} is used by relocation {}{}, which does not belong to a call (R_X86_64_PLT32-4); krtld \
         overwrites five bytes there in any case: do not take the address of a probe"
    ProbeOutsideCode Error "{} is used in {}, which is not executable; krtld overwrites data there"
    NotACall Error
        "{}: the instruction is `{}`, not a call (e8); {}; fire the probe where it cannot become a \
         tail call"
    SharedSite Error "{}: another relocation applies to the same five bytes"
    ProbeDefined Error "the symbol of a probe is defined, so it is a function instead of a probe; \
        leave it undefined"
    ProbeLocal Error
        "a local symbol; krtld resolves only global symbols as probes, and leaves this one a call \
         to address 0"
    Hijacked Error
        "belongs to provider {} by the prefix of its name, but the module names only {} in \
         .sdt_providers: rename the probe, or declare the provider"
    Merged Error
        "krtld would merge two probes into one: {} and {}; rename one of them, or build with \
         --route provider, where each provider is separate"
    Arguments Error "{} has {} at one site, and {} at another; krtld makes one probe of both"
    Description Error "the line {} does not describe a probe; the module was built with another \
        version of sdt-core"
    NotAnEnabledSite Error
        "an element of sdt_is_enabled is not the address of the call of a probe; `_init` would \
         read other memory"
    EnabledSymbol Error "does not contain the bounds of sdt_is_enabled, which `_init` reads there"
    EnabledBounds Error
        "{} pairs of words with the bounds of sdt_is_enabled, or other words besides; `_init` \
         needs exactly one pair"
}
