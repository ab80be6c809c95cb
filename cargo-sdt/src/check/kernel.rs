//! The exports of a kernel, from its own files. Each symbol that a module does not define has to be in one of them.
//!
//! A file is an ELF file (FreeBSD's `kernel`, illumos's `unix` and `genunix`, modules of either), or a list as nm(1)
//! prints it. The check runs and links nothing of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, elf};

use crate::arch::Arch;

type Header = elf::FileHeader64<Endianness>;

/// Prefix and suffix of the variable that FreeBSD's `MODULE_VERSION(X, ...)` defines in the file of X
/// (`sys/sys/module.h`).
const VERSION: (&str, &str) = ("_mod_metadata_", "_version");

/// The variable that holds a FreeBSD kernel's `__FreeBSD_version` (`sys/conf/newvers.sh`).
const OSRELDATE: &str = "osreldate";

/// The files that make up illumos's kernel, on which every module depends (`usr/src/uts/common/krtld/kobj.c`).
const PRIMARY: [&str; 4] = ["unix", "genunix", "krtld", "kernel"];

/// A file of `--kernel` or `--symbols` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {reason}")]
pub struct KernelError {
    file: String,
    reason: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("not a readable 64-bit object file: {0}")]
    Unreadable(#[from] object::Error),
    #[error("is for ELF machine {0}; only x86_64, aarch64 and riscv64 are supported")]
    Machine(u16),
    #[error("has no symbols; use the installed file of the kernel, not a stripped copy")]
    NoSymbols,
    #[error("the list has no defined symbols; create it with nm from the kernel's file")]
    EmptyList,
    #[error("line {0} is not a line of nm's output: {1:?}")]
    Line(usize, String),
}

/// A kernel, as its given files describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    files: Vec<Exports>,
}

/// The exports of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exports {
    /// The file's name, without folders and without `.ko`.
    pub(crate) name: String,
    /// Its architecture, if the file names one.
    pub(crate) arch: Option<Arch>,
    /// Whether it is the kernel, on which every module depends.
    pub(crate) primary: bool,
    /// Modules in the file, except the one that has the file's name.
    modules: BTreeSet<String>,
    symbols: BTreeMap<String, Kind>,
    /// Local symbols, which old releases of FreeBSD export, too.
    locals: BTreeMap<String, Kind>,
    /// `__FreeBSD_version`, of a FreeBSD kernel.
    pub(crate) version: Option<u32>,
}

/// The kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Code.
    Function,
    /// Data.
    Variable,
    /// Unknown: `STT_NOTYPE`, or a bare name in a list.
    Unknown,
}

/// The result of looking up a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The kernel, or a dependency, exports it.
    Exported(Kind),
    /// A module that is no dependency exports it.
    Elsewhere(String),
    /// None of the files exports the symbol, and the files of all dependencies were given.
    Missing,
    /// None of the files exports the symbol, and the files of these dependencies were not given.
    Unasked(Vec<String>),
}

/// The information that the check uses in addition to the module's file.
#[derive(Clone, Copy, Debug)]
pub struct Against<'a> {
    /// The name of the module's file, by which FreeBSD knows its probes.
    pub file: Option<&'a str>,
    /// The files of the kernel that it is for.
    pub kernel: &'a Kernel,
}

impl Default for Against<'_> {
    /// Returns a value without information.
    fn default() -> Self {
        static UNKNOWN: Kernel = Kernel::unknown();
        Self { file: None, kernel: &UNKNOWN }
    }
}

impl Kernel {
    /// Returns a kernel without files.
    pub const fn unknown() -> Self {
        Self { files: Vec::new() }
    }

    /// Adds an ELF file: the kernel itself, or a module that others may depend on.
    ///
    /// # Errors
    /// The file is not a valid ELF file.
    pub fn add_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), KernelError> {
        self.add(path, Exports::of_elf(path, bytes))
    }

    /// Adds a list of the kernel's symbols: lines of nm(1) in any of its forms, or bare names. Symbols that nm marks as undefined
    /// are ignored.
    ///
    /// # Errors
    /// A line is none of these.
    pub fn add_list(&mut self, path: &Path, text: &str) -> Result<(), KernelError> {
        self.add(path, Exports::of_list(path, text))
    }

    fn add(&mut self, path: &Path, read: Result<Exports, Reason>) -> Result<(), KernelError> {
        let failed = |reason| KernelError { file: path.display().to_string(), reason };
        self.files.push(read.map_err(failed)?);
        Ok(())
    }

    /// Returns whether the kernel's own file was given. Without it, a missing symbol proves nothing.
    pub(crate) fn is_known(&self) -> bool {
        self.files.iter().any(|file| file.primary)
    }

    /// The files.
    pub(crate) fn files(&self) -> &[Exports] {
        &self.files
    }

    /// Returns the names of the files, for messages.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.files.iter().map(|file| &*file.name).collect();
        names.join(", ")
    }

    /// Looks up a symbol for a module with these dependencies. `leaky`: local symbols of other files count.
    pub(crate) fn ask(&self, symbol: &str, depends: &[String], leaky: bool) -> Known {
        let depended = |file: &&Exports| file.primary || depends.iter().any(|of| file.is(of));
        let kind = |file: &Exports| {
            let local = || file.locals.get(symbol).filter(|_| leaky);
            file.symbols.get(symbol).or_else(local).copied()
        };
        if let Some(kind) = self.files.iter().filter(depended).find_map(kind) {
            return Known::Exported(kind);
        }
        if let Some(file) = self.files.iter().find(|file| kind(file).is_some()) {
            return Known::Elsewhere(file.name.clone());
        }
        let given = |module: &&String| self.files.iter().any(|file| file.is(module));
        let unasked: Vec<_> = depends.iter().filter(|of| !given(of)).cloned().collect();
        if unasked.is_empty() { Known::Missing } else { Known::Unasked(unasked) }
    }
}

impl Exports {
    fn named(path: &Path) -> Self {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let name = file.strip_suffix(".ko").unwrap_or(&file).to_owned();
        Self {
            primary: PRIMARY.contains(&&*name),
            name,
            arch: None,
            modules: BTreeSet::new(),
            symbols: BTreeMap::new(),
            locals: BTreeMap::new(),
            version: None,
        }
    }

    fn of_elf(path: &Path, bytes: &[u8]) -> Result<Self, Reason> {
        let mut exports = Self::named(path);
        let header = Header::parse(bytes)?;
        let endian = header.endian()?;
        let machine = header.e_machine(endian);
        exports.arch = Some(Arch::of_machine(machine).ok_or(Reason::Machine(machine.0))?);
        // Modules are ET_REL or ET_DYN, without an interpreter; FreeBSD's kernels name one, `/red/herring`.
        let programs = header.program_headers(endian, bytes)?;
        let interpreter = programs.iter().any(|of| of.p_type.get(endian) == elf::PT_INTERP);
        exports.primary |= header.e_type(endian) == elf::ET_EXEC || interpreter;
        let sections = header.sections(endian, bytes)?;
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let table = sections.symbols(endian, bytes, kind)?;
            for symbol in table.iter().skip(1) {
                let name = String::from_utf8_lossy(table.symbol_name(endian, symbol)?).into_owned();
                if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                    continue;
                }
                if name == OSRELDATE {
                    let section = usize::from(symbol.st_shndx(endian).0);
                    let section = sections.section(object::SectionIndex(section)).ok();
                    exports.version = section.and_then(|section| {
                        let relocatable = header.e_type(endian) == elf::ET_REL;
                        let base = if relocatable { 0 } else { section.sh_addr(endian) };
                        let at = symbol.st_value(endian).checked_sub(base)?;
                        let rest =
                            section.data(endian, bytes).ok()?.get(usize::try_from(at).ok()?..);
                        Some(u32::from_le_bytes(*rest?.first_chunk()?))
                    });
                }
                let kind = match symbol.st_type() {
                    elf::STT_FUNC | elf::STT_GNU_IFUNC => Kind::Function,
                    elf::STT_OBJECT => Kind::Variable,
                    _ => Kind::Unknown,
                };
                exports.add(name, symbol.st_bind() == elf::STB_LOCAL, kind);
            }
        }
        if exports.is_empty() { Err(Reason::NoSymbols) } else { Ok(exports) }
    }

    fn of_list(path: &Path, text: &str) -> Result<Self, Reason> {
        let mut exports = Self { primary: true, ..Self::named(path) };
        for (index, line) in text.lines().enumerate() {
            let wrong = || Reason::Line(index + 1, line.chars().take(80).collect());
            if let Some((name, local, kind)) = symbol_of(line.trim()).ok_or_else(wrong)? {
                exports.add(name.to_owned(), local, kind);
            }
        }
        if exports.is_empty() { Err(Reason::EmptyList) } else { Ok(exports) }
    }

    fn add(&mut self, name: String, local: bool, kind: Kind) {
        let module = name.strip_prefix(VERSION.0).and_then(|rest| rest.strip_suffix(VERSION.1));
        self.modules.extend(module.map(str::to_owned));
        if local { &mut self.locals } else { &mut self.symbols }.insert(name, kind);
    }

    fn is_empty(&self) -> bool {
        self.symbols.is_empty() && self.locals.is_empty()
    }

    /// Returns whether a module that depends on this name (`usb`, or, on illumos, `drv/ip`) needs this file.
    fn is(&self, module: &str) -> bool {
        let module = module.rsplit('/').next().unwrap_or(module);
        self.name == module
            || self.modules.contains(module)
            || self.primary && PRIMARY.contains(&module)
    }
}

/// The symbol that a line of nm(1) defines: its name, whether it is local, and its kind. `None` if the line defines no
/// symbol.
type Defined<'a> = Option<(&'a str, bool, Kind)>;

/// Returns the symbol of a line; `None` if the line is not one of nm's.
fn symbol_of(line: &str) -> Option<Defined<'_>> {
    if line.contains('|') {
        return of_columns(line);
    }
    let words: Vec<_> = line.split_whitespace().collect();
    let is_type = |word: &str| matches!(word.as_bytes(), [c] if c.is_ascii_alphabetic() || matches!(c, b'-' | b'?'));
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(match *words {
        [] => None,
        // The name of a file, before its symbols.
        [file] if file.ends_with(':') => None,
        [name] => Some((name, false, Kind::Unknown)),
        // `U name`, `T name`, `name T`.
        [kind, name] | [name, kind] if is_type(kind) => of_type(kind, name),
        // Lines with addresses, and with sizes.
        [ref numbers @ .., kind, name]
            if numbers.len() <= 2 && is_type(kind) && numbers.iter().all(|of| is_number(of)) =>
        {
            of_type(kind, name)
        }
        // The format of POSIX.
        [name, kind, ref numbers @ ..]
            if is_type(kind) && numbers.iter().all(|of| is_number(of)) =>
        {
            of_type(kind, name)
        }
        _ => return None,
    })
}

fn of_type<'a>(letter: &str, name: &'a str) -> Defined<'a> {
    let kind = match letter {
        "U" | "w" | "v" => return None,
        "T" | "t" | "i" => Kind::Function,
        "D" | "d" | "B" | "b" | "R" | "r" | "G" | "g" | "S" | "s" | "C" | "V" | "u" => {
            Kind::Variable
        }
        _ => Kind::Unknown,
    };
    // Lower case is local, except for these two, which have no upper case.
    let local = letter.bytes().all(|c| c.is_ascii_lowercase()) && !matches!(letter, "u" | "i");
    Some((name, local, kind))
}

/// Reads illumos's own form: `[Index] | Value | Size | Type | Bind | Other | Shndx | Name`.
fn of_columns(line: &str) -> Option<Defined<'_>> {
    let columns: Vec<_> = line.split('|').map(str::trim).collect();
    let [index, _, _, kind, bind, _, section, name] = *columns else { return None };
    let kind = match kind {
        "FUNC" => Kind::Function,
        "OBJT" => Kind::Variable,
        _ => Kind::Unknown,
    };
    let nothing = name.is_empty() || section == "UNDEF" || bind == "Bind";
    index.starts_with('[').then_some((!nothing).then_some((name, bind == "LOCL", kind)))
}

#[cfg(test)]
#[path = "../../tests/unit/check/kernel.rs"]
mod tests;
