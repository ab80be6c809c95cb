//! What kernels export, asked of their own files: symbols that a module does not define have to be in one of them.
//!
//! A file is an ELF file (FreeBSD's `kernel`, illumos's `unix` and `genunix`, modules of either), or a list as nm(1)
//! prints it. Nothing of the kernel is run or linked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, elf};

use crate::arch::Arch;

type Header = elf::FileHeader64<Endianness>;

/// What the name of the variable starts and ends with by which FreeBSD's `MODULE_VERSION(X, ...)` says that a file is X
/// (`sys/sys/module.h`).
const VERSION: (&str, &str) = ("_mod_metadata_", "_version");

/// The variable that holds a FreeBSD kernel's `__FreeBSD_version` (`sys/conf/newvers.sh`).
const OSRELDATE: &str = "osreldate";

/// The files that make up illumos's kernel, on which every module depends (`usr/src/uts/common/krtld/kobj.c`).
const PRIMARY: [&str; 4] = ["unix", "genunix", "krtld", "kernel"];

/// Why a file cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// It is damaged, or for 32 bits.
    #[error("{file}: not a readable 64-bit object file: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// It is for an architecture that no modules are built for.
    #[error("{file}: for machine {machine}, which is none of x86_64, aarch64 and riscv64")]
    Machine {
        /// The file.
        file: String,
        /// The number in its header.
        machine: u16,
    },
    /// It has no symbols.
    #[error(
        "{file}: has no symbols; take the kernel's file as it was installed, not a stripped one"
    )]
    NoSymbols {
        /// The file.
        file: String,
    },
    /// A list has no symbols.
    #[error(
        "{file}: the list has no symbols that are defined; make it with nm from the kernel's file"
    )]
    EmptyList {
        /// The file.
        file: String,
    },
    /// A line of a list that is none of nm's.
    #[error("{file}: line {line} is not one of nm's: {text:?}")]
    Line {
        /// The file.
        file: String,
        /// The number of the line.
        line: usize,
        /// What it says.
        text: String,
    },
}

/// A kernel, as far as its files have been given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    files: Vec<Exports>,
}

/// What one file exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exports {
    /// The file's name, without folders and without `.ko`.
    pub(crate) name: String,
    /// What it is for, if it says so.
    pub(crate) arch: Option<Arch>,
    /// Whether it is the kernel, on which every module depends.
    pub(crate) primary: bool,
    /// The modules that it is, besides the one of its name.
    modules: BTreeSet<String>,
    symbols: BTreeMap<String, Kind>,
    /// Local ones, which old releases of FreeBSD let others see all the same.
    locals: BTreeMap<String, Kind>,
    /// `__FreeBSD_version`, of a FreeBSD kernel.
    pub(crate) version: Option<u32>,
}

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Code.
    Function,
    /// Data.
    Variable,
    /// The file does not say: `STT_NOTYPE`, or a bare name in a list.
    Unknown,
}

/// What is known of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The kernel, or a module that is depended on, has it.
    Exported(Kind),
    /// A module that is not depended on has it.
    Elsewhere(String),
    /// None of the files has it, and they are all that could.
    Missing,
    /// None of the files has it, but of these modules there is no file.
    Unasked(Vec<String>),
}

impl Kernel {
    /// One of which there is no file.
    pub const fn unknown() -> Self {
        Self { files: Vec::new() }
    }

    /// Adds an ELF file: the kernel itself, or a module that others may depend on.
    ///
    /// # Errors
    /// It cannot be read as one.
    pub fn add_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), KernelError> {
        self.files.push(Exports::of_elf(path, bytes)?);
        Ok(())
    }

    /// Adds a list of the kernel's symbols: lines of nm(1) in any of its forms, or bare names. What nm marks as
    /// undefined is passed over.
    ///
    /// # Errors
    /// A line is none of these.
    pub fn add_list(&mut self, path: &Path, text: &str) -> Result<(), KernelError> {
        self.files.push(Exports::of_list(path, text)?);
        Ok(())
    }

    /// Whether there is anything to ask. Without the kernel itself a symbol that is nowhere proves nothing.
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

    /// Where a symbol is that a module with these dependencies uses. `leaky`: others' local symbols count.
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

    fn of_elf(path: &Path, bytes: &[u8]) -> Result<Self, KernelError> {
        let mut exports = Self::named(path);
        let file = path.display().to_string();
        let unreadable = |reason: object::Error| KernelError::Unreadable {
            file: file.clone(),
            reason: reason.to_string(),
        };
        let header = Header::parse(bytes).map_err(unreadable)?;
        let endian = header.endian().map_err(unreadable)?;
        let machine = header.e_machine(endian);
        exports.arch = Arch::of_machine(machine);
        if exports.arch.is_none() {
            return Err(KernelError::Machine { file, machine: machine.0 });
        }
        // Modules are ET_REL or ET_DYN, without an interpreter; FreeBSD's kernels name one, `/red/herring`.
        let programs = header.program_headers(endian, bytes).map_err(unreadable)?;
        let interpreter = programs.iter().any(|of| of.p_type.get(endian) == elf::PT_INTERP);
        exports.primary |= header.e_type(endian) == elf::ET_EXEC || interpreter;
        let sections = header.sections(endian, bytes).map_err(unreadable)?;
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let table = sections.symbols(endian, bytes, kind).map_err(unreadable)?;
            for symbol in table.iter().skip(1) {
                let name = table.symbol_name(endian, symbol).map_err(unreadable)?;
                let name = String::from_utf8_lossy(name).into_owned();
                if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                    continue;
                }
                if name == OSRELDATE {
                    let section = usize::from(symbol.st_shndx(endian).0);
                    let section = sections.section(object::SectionIndex(section)).ok();
                    exports.version = section.and_then(|section| {
                        let data = section.data(endian, bytes).ok()?;
                        let base = match header.e_type(endian) {
                            elf::ET_REL => 0,
                            _ => section.sh_addr(endian),
                        };
                        let at = symbol.st_value(endian).checked_sub(base)?;
                        let number = data.get(usize::try_from(at).ok()?..)?.first_chunk()?;
                        Some(u32::from_le_bytes(*number))
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
        if exports.is_empty() { Err(KernelError::NoSymbols { file }) } else { Ok(exports) }
    }

    fn of_list(path: &Path, text: &str) -> Result<Self, KernelError> {
        let mut exports = Self { primary: true, ..Self::named(path) };
        let file = path.display().to_string();
        for (index, line) in text.lines().enumerate() {
            match Line::parse(line) {
                Line::Symbol { name, local, kind } => exports.add(name.to_owned(), local, kind),
                Line::Nothing => {}
                Line::Wrong => {
                    let text = line.chars().take(80).collect();
                    return Err(KernelError::Line { file, line: index + 1, text });
                }
            }
        }
        if exports.is_empty() { Err(KernelError::EmptyList { file }) } else { Ok(exports) }
    }

    fn add(&mut self, name: String, local: bool, kind: Kind) {
        let module = name.strip_prefix(VERSION.0).and_then(|rest| rest.strip_suffix(VERSION.1));
        self.modules.extend(module.map(str::to_owned));
        if local { &mut self.locals } else { &mut self.symbols }.insert(name, kind);
    }

    fn is_empty(&self) -> bool {
        self.symbols.is_empty() && self.locals.is_empty()
    }

    /// Whether it is what a module names among its dependencies: `usb`, or, on illumos, `drv/ip`.
    fn is(&self, module: &str) -> bool {
        let module = module.rsplit('/').next().unwrap_or(module);
        self.name == module
            || self.modules.contains(module)
            || self.primary && PRIMARY.contains(&module)
    }
}

/// A line of nm(1).
enum Line<'a> {
    Symbol { name: &'a str, local: bool, kind: Kind },
    Nothing,
    Wrong,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let line = line.trim();
        if line.contains('|') {
            return Self::of_columns(line);
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let is_type = |word: &str| matches!(word.as_bytes(), [c] if c.is_ascii_alphabetic() || matches!(c, b'-' | b'?'));
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match *words {
            [] => Self::Nothing,
            // The name of a file, before its symbols.
            [file] if file.ends_with(':') => Self::Nothing,
            [name] => Self::Symbol { name, local: false, kind: Kind::Unknown },
            // `U name`, `T name`, `name T`.
            [kind, name] | [name, kind] if is_type(kind) => Self::of_type(kind, name),
            [value, kind, name] if is_number(value) && is_type(kind) => Self::of_type(kind, name),
            // With sizes; and as POSIX has it.
            [value, size, kind, name] if is_number(value) && is_number(size) && is_type(kind) => {
                Self::of_type(kind, name)
            }
            [name, kind, ref numbers @ ..]
                if is_type(kind) && numbers.iter().all(|of| is_number(of)) =>
            {
                Self::of_type(kind, name)
            }
            _ => Self::Wrong,
        }
    }

    fn of_type(kind: &str, name: &'a str) -> Self {
        match kind {
            "U" | "w" | "v" => Self::Nothing,
            // Lower case is local, except for these two, which have no upper case.
            "u" => Self::Symbol { name, local: false, kind: Kind::Variable },
            "i" => Self::Symbol { name, local: false, kind: Kind::Function },
            letter => {
                let kind = match letter {
                    "T" | "t" => Kind::Function,
                    "D" | "d" | "B" | "b" | "R" | "r" | "G" | "g" | "S" | "s" | "C" | "V" => {
                        Kind::Variable
                    }
                    _ => Kind::Unknown,
                };
                let local = letter.bytes().all(|c| c.is_ascii_lowercase());
                Self::Symbol { name, local, kind }
            }
        }
    }

    /// illumos's own form: `[Index] | Value | Size | Type | Bind | Other | Shndx | Name`.
    fn of_columns(line: &'a str) -> Self {
        let columns: Vec<_> = line.split('|').map(str::trim).collect();
        match *columns {
            [index, _, _, kind, bind, _, section, name] if index.starts_with('[') => {
                let kind = match kind {
                    "FUNC" => Kind::Function,
                    "OBJT" => Kind::Variable,
                    _ => Kind::Unknown,
                };
                match (bind, section) {
                    _ if name.is_empty() => Self::Nothing,
                    (_, "UNDEF") => Self::Nothing,
                    ("Bind", _) => Self::Nothing,
                    (bind, _) => Self::Symbol { name, local: bind == "LOCL", kind },
                }
            }
            _ => Self::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Kernel {
        let mut kernel = Kernel::default();
        kernel.add_list(Path::new("lists/kernel.nm"), text).expect("a list");
        kernel
    }

    #[test]
    fn lists_of_every_form() {
        let kernel = list(
            "\nkernel:\nffffffff80210000 T malloc\n                 U nobody\n\
             ffffffff80210000 t hidden\nffffffff80210000 0000000000000010 D hz\n\
             printf T 1234 20\nsnprintf T\nW weakling\nfree\n0000 i ifunc\n",
        );
        for (symbol, there) in [
            ("malloc", true),
            ("nobody", false),
            ("hidden", false),
            ("hz", true),
            ("printf", true),
            ("snprintf", true),
            ("weakling", true),
            ("free", true),
            ("ifunc", true),
        ] {
            let known = kernel.ask(symbol, &[], false);
            assert_eq!(matches!(known, Known::Exported(_)), there, "{symbol}: {known:?}");
        }
        for (symbol, kind) in [
            ("malloc", Kind::Function),
            ("hz", Kind::Variable),
            ("weakling", Kind::Unknown),
            ("free", Kind::Unknown),
            ("ifunc", Kind::Function),
            ("hidden", Kind::Function),
        ] {
            assert_eq!(kernel.ask(symbol, &[], true), Known::Exported(kind), "{symbol}");
        }
        let kernel = list(
            "[Index]   | Value | Size | Type | Bind | Other | Shndx | Name\n\
             [12]  |  18446744073| 26|FUNC |GLOB |0    |2      |ddi_copyin\n\
             [13]  |  0| 0|FUNC |GLOB |0    |UNDEF  |nobody\n\
             [14]  |  0| 0|FUNC |LOCL |0    |2  |hidden\n",
        );
        assert_eq!(kernel.ask("ddi_copyin", &[], false), Known::Exported(Kind::Function));
        assert_eq!(kernel.ask("nobody", &[], false), Known::Missing);
        assert_eq!(kernel.ask("hidden", &[], false), Known::Missing);
    }

    #[test]
    fn what_is_no_list() {
        let mut kernel = Kernel::default();
        let error = kernel.add_list(Path::new("x"), "malloc\nfour words of it\n").unwrap_err();
        assert_eq!(error.to_string(), "x: line 2 is not one of nm's: \"four words of it\"");
        for text in ["", "\n", " U malloc\n"] {
            let error = kernel.add_list(Path::new("x"), text).unwrap_err();
            assert!(error.to_string().starts_with("x: the list has no symbols that "), "{error}");
        }
        let error = kernel.add_file(Path::new("x"), b"text").unwrap_err();
        assert!(error.to_string().starts_with("x: not a readable 64-bit object file: "), "{error}");
    }

    #[test]
    fn modules_that_the_kernel_has_in_it() {
        let kernel =
            list("0 T malloc\n0 d _mod_metadata_usb_version\n0 d _mod_metadata_zfs_version\n");
        let depends = ["kernel", "usb", "zfs"].map(str::to_owned);
        assert_eq!(kernel.ask("usb_typo", &depends, false), Known::Missing);
        let depends = ["kernel", "usb", "other"].map(str::to_owned);
        let unasked = Known::Unasked(vec!["other".to_owned()]);
        assert_eq!(kernel.ask("usb_typo", &depends, false), unasked);
    }
}
