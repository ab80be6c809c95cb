//! The reasons for which the kernel refuses to load or unload a module. The messages are those of krtld and `modctl.c` if these
//! have one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::errno::{self, EBUSY, EFAULT, EINVAL, ENOENT, ENOMEM, ENXIO};

/// Why modload(8) or modunload(8) failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The file has no ELF magic number.
    NotElf,
    /// The file is for another machine, or not 64-bit and little-endian.
    OtherMachine,
    /// Not an ET_REL file.
    NotRelocatable,
    /// A part lies outside of the file. krtld would read beyond the file.
    Truncated(&'static str),
    /// A section that is loaded has an address.
    Address,
    /// More than one dynamic section.
    DynamicTwice,
    /// The strings of the dynamic section with this number are no string table.
    DynamicStrings(usize),
    /// The file has no symbol table.
    NoSymbols,
    /// The symbol with this index is in a section that does not exist.
    SectionNumber(usize),
    /// Symbols that cannot be resolved.
    Undefined {
        /// The undefined symbols.
        undefined: Vec<String>,
        /// Thread-local symbols.
        thread_local: Vec<String>,
        /// The first dependency that is not loaded.
        missing: Option<String>,
    },
    /// Relocations without explicit addends.
    Rel,
    /// Relocations for another symbol table.
    OtherTable,
    /// The relocation section with this index applies to a section that does not exist.
    Target(usize),
    /// The relocation with this index in its section uses a symbol that does not exist.
    SymbolNumber(usize),
    /// krtld rejects the type of a relocation as invalid.
    Type {
        /// The type.
        kind: u32,
        /// The offset in the relocated section.
        offset: u64,
    },
    /// krtld recognises the type of a relocation but does not support it.
    NotSupported {
        /// The type.
        kind: u32,
        /// The name of the relocation's symbol.
        symbol: String,
    },
    /// The value of a relocation does not fit into its field.
    Fit {
        /// The type.
        kind: u32,
        /// The name of the relocation's symbol.
        symbol: String,
        /// The value.
        value: u64,
    },
    /// krtld would load the module without a message, and the kernel would be corrupted.
    Unsound {
        /// The section and the offset in it, or the name of a symbol.
        place: String,
        /// The defect.
        reason: String,
    },
    /// Not enough memory or addresses.
    OutOfMemory,
    /// A module that it depends on cannot be installed.
    Requisite,
    /// The module has no `_init`, or its `_init` is at an address outside of the module.
    NoInit,
    /// `_init` returned an error.
    Init(i32),
    /// No module has this name.
    NoSuchModule,
    /// A probe of the module is enabled, another module depends on it, or it has no `_fini`.
    Busy,
    /// The module's `_fini` is at an address outside of the module.
    NoFini,
    /// `_fini` returned an error.
    Fini(i32),
}

/// Returns the name of a relocation type in krtld's messages; the number if it has no name there.
fn type_name(kind: u32) -> String {
    let name = match kind {
        3 => "GOT32",
        4 => "PLT32",
        2 => "PC32",
        5 => "COPY",
        7 => "JUMP_SLOT",
        10 => "32",
        11 => "32S",
        27 => "GOT64",
        other => return format!("{other}"),
    };
    format!("R_AMD64_{name}")
}

impl Refusal {
    /// Returns whether illumos, which does not check this, would have panicked or corrupted memory.
    pub fn would_have_panicked(&self) -> bool {
        matches!(self, Self::Truncated(_) | Self::Unsound { .. })
    }

    /// The error number that modctl(2) returns.
    pub fn errno(&self) -> i32 {
        match self {
            Self::OutOfMemory => ENOMEM,
            Self::Requisite => ENXIO,
            Self::NoInit | Self::NoFini => EFAULT,
            Self::Init(error) | Self::Fini(error) => *error,
            Self::NoSuchModule => ENOENT,
            Self::Busy => EBUSY,
            _ => EINVAL,
        }
    }

    /// Returns the console's lines about the module `name` in the file `class/name`.
    pub fn console(&self, class: &str, name: &str) -> Vec<String> {
        let path = format!("/kernel/{class}/amd64/{name}");
        let sections = |line: String| alloc::vec![line, format!("{name} error reading sections")];
        let dynamic = |what: String| {
            alloc::vec![
                format!("krtld: get_dynamic: {path}, {what}"),
                format!("{name} error reading dynamic section"),
            ]
        };
        let symbols = |line: String| alloc::vec![line, format!("{name} error reading symbols")];
        let relocations =
            |line: String| alloc::vec![line, format!("{name} error doing relocations")];
        let relocate = |line: String| {
            alloc::vec![
                line,
                format!("do_relocations: {path} do_relocate failed"),
                format!("{name} error doing relocations"),
            ]
        };
        // krtld prints this message without a newline, so the next message is on the same line.
        let relocation = |kind: u32, symbol: &str, what: String| {
            alloc::vec![
                format!(
                    "relocation error: {}: file {path}: symbol {symbol}: {what}do_relocations: {path} \
                     do_relocate failed",
                    type_name(kind)
                ),
                format!("{name} error doing relocations"),
            ]
        };
        match self {
            Self::NotElf => alloc::vec![format!("{name} not an elf module")],
            Self::OtherMachine => alloc::vec![format!("{name} not an elf module for this ISA")],
            Self::NotRelocatable => {
                alloc::vec![format!("{name} isn't a relocatable (ET_REL) module")]
            }
            Self::Address => sections(format!("{path} non-zero sect addr in input file")),
            Self::DynamicTwice => dynamic("multiple dynamic sections".into()),
            Self::DynamicStrings(section) => {
                dynamic(format!("sh_link not a string table for section {section}"))
            }
            Self::NoSymbols => {
                symbols(format!("krtld: get_syms: {path} no SHT_SYMTAB symbol table found"))
            }
            Self::SectionNumber(symbol) => symbols(format!("{path} bad shndx in symbol {symbol}")),
            Self::Undefined { undefined, thread_local, missing } => {
                let tls = thread_local
                    .iter()
                    .map(|symbol| format!("{path}: TLS symbol not supported '{symbol}'"));
                let undefined =
                    undefined.iter().map(|symbol| format!("{path}: undefined symbol '{symbol}'"));
                let mut lines: Vec<String> = tls.chain(undefined).collect();
                lines.push(format!("WARNING: mod_load: cannot load module '{name}'"));
                lines.extend(missing.iter().map(|missing| {
                    format!(
                        "WARNING: {name}: unable to resolve dependency, module '{missing}' not found"
                    )
                }));
                lines
            }
            Self::Rel => relocations(format!("{path} can't process type SHT_REL")),
            Self::OtherTable => relocations(format!("{path} reloc for non-default symtab")),
            Self::Target(section) => {
                relocations(format!("do_relocations: {path} sh_info out of range {section}"))
            }
            Self::SymbolNumber(relocation) => {
                relocate(format!("do_relocate: bad strndx {relocation}"))
            }
            Self::Type { kind, offset } => relocate(format!(
                "krtld: invalid relocation type {kind} at 0x{offset:x}: file={path}"
            )),
            Self::NotSupported { kind, symbol } => {
                relocation(*kind, symbol, "offset size (0 bytes) is not supported".into())
            }
            Self::Fit { kind, symbol, value } => {
                relocation(*kind, symbol, format!("value 0x{value:x} does not fit"))
            }
            Self::NoInit => {
                alloc::vec![format!("WARNING: _init() not defined properly in {class}/{name}")]
            }
            Self::NoFini => {
                alloc::vec![format!("WARNING: _fini() not defined properly in {class}/{name}")]
            }
            Self::Init(error) => {
                alloc::vec![format!("loadmodule:{class}/{name}({name}): _init() error {error}")]
            }
            Self::Fini(error) => {
                alloc::vec![format!("Returned from _fini for {class}/{name}, status = {error:x}")]
            }
            Self::Truncated(_) | Self::Unsound { .. } | Self::OutOfMemory | Self::Requisite => {
                alloc::vec![format!("{name}: {self}")]
            }
            Self::NoSuchModule | Self::Busy => Vec::new(),
        }
    }
}

impl fmt::Display for Refusal {
    /// Writes the message of modload(8) or modunload(8). The console has the complete reason ([`console`](Self::console)).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(what) => write!(f, "{what} is not inside the file"),
            Self::Unsound { place, reason } => {
                write!(f, "{place}: {reason}; krtld would load it and illumos would have panicked")
            }
            Self::Undefined { undefined, .. } if !undefined.is_empty() => {
                write!(f, "undefined symbol '{}'", undefined[0])
            }
            other => f.write_str(errno::text(other.errno())),
        }
    }
}

impl core::error::Error for Refusal {}
