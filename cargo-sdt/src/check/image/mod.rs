//! A module's file, taken apart: sections with their relocations, and symbols.

mod relocatable;
mod shared;

use std::collections::BTreeMap;

use object::read::elf::{FileHeader as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable};
use object::{Endianness, elf};

use super::finding::{Findings, Problem};
use super::functions::{Defined, Functions};
use super::layout;
use crate::arch::{Arch, ModuleKind};
pub(crate) use shared::{Dynamic, HashTable, Segment};

type Header = elf::FileHeader64<Endianness>;

/// A module's sections and symbols.
#[derive(Debug)]
pub(crate) struct Image<'data> {
    /// What it is for.
    pub(crate) arch: Arch,
    /// All sections, by their index in the file.
    pub(crate) sections: Vec<Section<'data>>,
    /// All symbols that relocations refer to, by their index in the table.
    pub(crate) symbols: Vec<Symbol>,
    /// Symbols of a shared object's other table, which are looked at after these.
    pub(crate) more_symbols: Vec<Symbol>,
    /// What of a shared object the loader maps; none in a relocatable file.
    pub(crate) segments: Vec<Segment<'data>>,
    /// A shared object's tables.
    pub(crate) dynamic: Dynamic,
    /// The table by which its symbols are found.
    pub(crate) hash: Option<HashTable>,
}

/// A section.
#[derive(Debug)]
pub(crate) struct Section<'data> {
    pub(crate) name: String,
    pub(crate) kind: elf::SectionType,
    pub(crate) flags: elf::SectionFlags,
    pub(crate) align: u64,
    /// Its address in a shared object; 0 in a relocatable file.
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Its bytes in the file; none for `.bss`.
    pub(crate) data: &'data [u8],
    /// The relocations that apply to it, by offset. Of several at one offset, the last.
    pub(crate) relocations: BTreeMap<u64, Relocation>,
    /// Offsets that have several.
    pub(crate) twice: Vec<u64>,
}

/// A relocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    pub(crate) kind: elf::RelocationType,
    pub(crate) symbol: usize,
    pub(crate) addend: i64,
}

/// A symbol.
#[derive(Debug)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) binding: elf::SymbolBind,
    pub(crate) kind: elf::SymbolType,
    pub(crate) home: Home,
    /// In a section: the offset in it.
    pub(crate) value: u64,
    pub(crate) size: u64,
}

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Undefined,
    Absolute,
    Common,
    Section(usize),
}

/// A place in a section that an address in the module points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) section: usize,
    pub(crate) offset: u64,
}

impl Section<'_> {
    /// Adds a relocation.
    fn relocate(&mut self, offset: u64, relocation: Relocation) {
        if self.relocations.insert(offset, relocation).is_some() {
            self.twice.push(offset);
        }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.flags.contains(elf::SHF_ALLOC)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.flags.contains(elf::SHF_WRITE)
    }

    pub(crate) fn is_code(&self) -> bool {
        self.flags.contains(elf::SHF_EXECINSTR)
    }

    /// Where elements of a size are in it, as far as there are bytes of them in the file: what the header says of its
    /// size can be anything.
    pub(crate) fn elements(&self, each: usize) -> impl Iterator<Item = u64> + use<> {
        (0..self.data.len() as u64).step_by(each)
    }

    /// `len` bytes at an offset, if they are in the file.
    pub(crate) fn bytes(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        self.data.get(start..end)
    }

    /// The 32-bit number at an offset.
    pub(crate) fn u32(&self, offset: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(offset, 4)?.try_into().ok()?))
    }

    /// The 64-bit number at an offset.
    pub(crate) fn u64(&self, offset: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(offset, 8)?.try_into().ok()?))
    }
}

impl<'data> Image<'data> {
    /// Takes a file apart. `None`, with findings, if it is not an object the loader would look at,
    /// or is damaged.
    pub(crate) fn parse(data: &'data [u8], findings: &mut Findings) -> Option<Self> {
        let unreadable = |findings: &mut Findings, error: object::Error| {
            findings.file(Problem::Unreadable(error.to_string()));
        };
        let header = match Header::parse(data) {
            Ok(header) => header,
            Err(error) => {
                unreadable(findings, error);
                return None;
            }
        };
        let arch = header_fits(header, findings)?;
        let read = match arch.module_kind() {
            ModuleKind::Relocatable => relocatable::read,
            ModuleKind::Shared => shared::read,
        };
        match read(arch, header, data, findings) {
            Ok(image) => Some(image),
            Err(error) => {
                unreadable(findings, error);
                None
            }
        }
    }

    /// The sections of a name.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Section<'data>> {
        self.loaded().filter(move |section| section.name == name)
    }

    /// The sections that are loaded.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = &Section<'data>> {
        self.sections.iter().filter(|section| section.is_loaded())
    }

    /// Where the 8-byte address at an offset of a section will point, if it is to something in this
    /// module.
    pub(crate) fn address(&self, section: &Section<'_>, offset: u64) -> Option<Target> {
        let relocation = section.relocations.get(&offset)?;
        if self.is_relative(relocation) {
            return self.at(relocation.addend.cast_unsigned());
        }
        if relocation.kind != address_kind(self.arch) {
            return None;
        }
        let symbol = self.symbols.get(relocation.symbol)?;
        let Home::Section(home) = symbol.home else { return None };
        let offset = symbol.value.checked_add_signed(relocation.addend)?;
        (offset < self.sections[home].size).then_some(Target { section: home, offset })
    }

    /// The symbol, of another module or the kernel, whose address will be at an offset of a section. Of a weak symbol
    /// that may be 0.
    pub(crate) fn import(&self, section: &Section<'_>, offset: u64) -> Option<&str> {
        let symbol = self.undefined(section, offset)?;
        (symbol.binding != elf::STB_WEAK).then_some(&*symbol.name)
    }

    /// Whether there will be the address of a weak symbol that others may have or not.
    pub(crate) fn is_weak_import(&self, section: &Section<'_>, offset: u64) -> bool {
        self.undefined(section, offset).is_some_and(|symbol| symbol.binding == elf::STB_WEAK)
    }

    fn undefined(&self, section: &Section<'_>, offset: u64) -> Option<&Symbol> {
        let relocation = section.relocations.get(&offset)?;
        let symbol = self.symbols.get(relocation.symbol)?;
        let undefined = relocation.kind == address_kind(self.arch)
            && symbol.home == Home::Undefined
            && relocation.addend == 0;
        undefined.then_some(symbol)
    }

    /// The relocations that make an address: of something of this module, or of another's symbol.
    pub(crate) fn points(&self, section: &Section<'_>, offset: u64) -> bool {
        self.address(section, offset).is_some() || self.import(section, offset).is_some()
    }

    /// The functions, by the table that debuggers, and fbt, use.
    pub(crate) fn functions(&self) -> Functions<'_> {
        Functions::new(self.all_symbols().filter_map(|symbol| {
            let Home::Section(section) = symbol.home else { return None };
            let (name, kind) = (&*symbol.name, symbol.kind);
            Some(Defined { name, kind, section, value: symbol.value, size: symbol.size })
        }))
    }

    /// Whether a relocation makes the address of a place in a shared object itself.
    pub(crate) fn is_relative(&self, relocation: &Relocation) -> bool {
        match self.arch {
            Arch::X86_64 => false,
            Arch::Aarch64 => relocation.kind == elf::R_AARCH64_RELATIVE,
            Arch::Riscv64 => relocation.kind == elf::R_RISCV_RELATIVE,
        }
    }

    /// What is at an address of a shared object.
    fn at(&self, address: u64) -> Option<Target> {
        self.sections.iter().enumerate().find_map(|(index, section)| {
            let offset = address.checked_sub(section.address)?;
            let inside = section.is_loaded() && offset < section.size;
            inside.then_some(Target { section: index, offset })
        })
    }

    /// All symbols, of both tables.
    pub(crate) fn all_symbols(&self) -> impl Iterator<Item = &Symbol> {
        // The first symbol of a table is the null symbol.
        self.symbols.iter().skip(1).chain(self.more_symbols.iter().skip(1))
    }

    /// Whether relocations apply to a section, or lead to it.
    pub(crate) fn is_used(&self, section: usize) -> bool {
        let leads = |of: &Relocation| {
            self.symbols.get(of.symbol).is_some_and(|of| of.home == Home::Section(section))
        };
        !self.sections[section].relocations.is_empty()
            || self.loaded().any(|of| of.relocations.values().any(leads))
    }

    /// Whether what is at an offset of code is data, by the mapping symbols of ARM64 and RISC-V.
    pub(crate) fn is_data_in_code(&self, section: usize, offset: u64) -> bool {
        let marks = self.all_symbols().filter(|symbol| {
            symbol.home == Home::Section(section)
                && symbol.value <= offset
                && matches!(symbol.name.as_bytes(), [b'$', b'd' | b'x', ..])
        });
        marks.max_by_key(|symbol| symbol.value).is_some_and(|mark| mark.name.starts_with("$d"))
    }

    /// The section of a target.
    pub(crate) fn section_of(&self, target: Target) -> &Section<'data> {
        &self.sections[target.section]
    }

    /// The NUL-terminated string at a target.
    pub(crate) fn string(&self, target: Target) -> Option<String> {
        let rest = self.section_of(target).data.get(usize::try_from(target.offset).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}

/// The relocation that makes the address of a symbol.
fn address_kind(arch: Arch) -> elf::RelocationType {
    match arch {
        Arch::X86_64 => elf::R_X86_64_64,
        Arch::Aarch64 => elf::R_AARCH64_ABS64,
        Arch::Riscv64 => elf::R_RISCV_64,
    }
}

/// The architecture, if the header is that of a module for one, which is as far as other files get.
fn header_fits(header: &Header, findings: &mut Findings) -> Option<Arch> {
    let mut wrong = |loader, what, found: String, expected| {
        findings.file(Problem::Header { loader, what, found, expected });
        None
    };
    if !header.is_class_64() {
        return wrong("", "the class", format!("{:?}", header.e_ident.class), "64-bit");
    }
    let order = "the byte order";
    let Ok(endian) = header.endian() else {
        return wrong("", order, format!("{:?}", header.e_ident.data), "little-endian");
    };
    if header.is_big_endian() {
        return wrong("", order, "big-endian".into(), "little-endian");
    }
    let machine = header.e_machine(endian);
    let Some(arch) = Arch::of_machine(machine) else {
        let known = "x86-64 (62), AArch64 (183) and RISC-V (243)";
        return wrong("", "the machine", machine.0.to_string(), known);
    };
    let (kind, expected) = match arch.module_kind() {
        ModuleKind::Relocatable => (elf::ET_REL, "relocatable files (ET_REL, 1)"),
        ModuleKind::Shared => (elf::ET_DYN, "shared objects (ET_DYN, 3)"),
    };
    let found = header.e_type(endian);
    if found != kind {
        return wrong(arch.freebsd_name(), "the type", found.0.to_string(), expected);
    }
    let version = header.e_version(endian);
    if version != u32::from(elf::EV_CURRENT.0) {
        return wrong(arch.freebsd_name(), "the version", version.to_string(), "1 (EV_CURRENT)");
    }
    Some(arch)
}

/// All sections, without their relocations.
fn read_sections<'data>(
    endian: Endianness,
    table: &SectionTable<'data, Header>,
    data: &'data [u8],
) -> object::read::Result<Vec<Section<'data>>> {
    let read = |section: &'data elf::SectionHeader64<Endianness>| {
        Ok(Section {
            name: String::from_utf8_lossy(table.section_name(endian, section)?).into_owned(),
            kind: section.sh_type(endian),
            flags: section.sh_flags(endian),
            align: section.sh_addralign(endian),
            address: section.sh_addr(endian),
            offset: section.sh_offset(endian),
            size: section.sh_size(endian),
            data: section.data(endian, data)?,
            relocations: BTreeMap::new(),
            twice: Vec::new(),
        })
    };
    table.iter().map(read).collect()
}

/// All symbols of a table, their values not yet offsets in a shared object's sections.
fn read_symbols(
    endian: Endianness,
    table: &SymbolTable<'_, Header>,
    sections: usize,
    findings: &mut Findings,
) -> object::read::Result<Vec<Symbol>> {
    let mut symbols = Vec::with_capacity(table.len());
    for (index, symbol) in table.enumerate() {
        let name = String::from_utf8_lossy(table.symbol_name(endian, symbol)?).into_owned();
        let home = match table.symbol_section(endian, symbol, index)? {
            Some(section) if section.0 < sections => Home::Section(section.0),
            Some(section) => {
                let problem = format!("symbol {name} is in section {section}, there is none");
                findings.file(Problem::Unreadable(problem));
                Home::Undefined
            }
            None => match symbol.st_shndx(endian) {
                elf::SHN_UNDEF => Home::Undefined,
                elf::SHN_COMMON => Home::Common,
                number => {
                    if layout::is_reserved(number) {
                        findings.symbol(&name, Problem::ReservedSection(number.0));
                    }
                    Home::Absolute
                }
            },
        };
        symbols.push(Symbol {
            name,
            binding: symbol.st_bind(),
            kind: symbol.st_type(),
            home,
            value: symbol.st_value(endian),
            size: symbol.st_size(endian),
        });
    }
    Ok(symbols)
}
