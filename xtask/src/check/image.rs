//! A module's file, taken apart: sections with their relocations, and symbols.

use std::collections::BTreeMap;

use object::read::elf::{
    FileHeader as _, Rela as _, RelocationSections, SectionHeader as _, Sym as _,
};
use object::{Endianness, elf};

use super::finding::{Findings, Problem};

type Header = elf::FileHeader64<Endianness>;

/// A module's sections and symbols.
#[derive(Debug)]
pub(crate) struct Image<'data> {
    /// All sections, by their index in the file.
    pub(crate) sections: Vec<Section<'data>>,
    /// All symbols, by their index in the table.
    pub(crate) symbols: Vec<Symbol>,
}

/// A section.
#[derive(Debug)]
pub(crate) struct Section<'data> {
    pub(crate) name: String,
    pub(crate) kind: elf::SectionType,
    pub(crate) flags: elf::SectionFlags,
    pub(crate) align: u64,
    pub(crate) size: u64,
    /// Its bytes in the file; none for `.bss`.
    pub(crate) data: &'data [u8],
    /// The relocations that apply to it, by offset. Of several at one offset, the last.
    pub(crate) relocations: BTreeMap<u64, Relocation>,
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
    pub(crate) home: Home,
    pub(crate) value: u64,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) section: usize,
    pub(crate) offset: u64,
}

impl Section<'_> {
    pub(crate) fn is_loaded(&self) -> bool {
        self.flags.contains(elf::SHF_ALLOC)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.flags.contains(elf::SHF_WRITE)
    }

    pub(crate) fn is_code(&self) -> bool {
        self.flags.contains(elf::SHF_EXECINSTR)
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
        if !header_fits(header, findings) {
            return None;
        }
        match Self::read(header, data, findings) {
            Ok(image) => Some(image),
            Err(error) => {
                unreadable(findings, error);
                None
            }
        }
    }

    fn read(
        header: &'data Header,
        data: &'data [u8],
        findings: &mut Findings,
    ) -> object::read::Result<Self> {
        let endian = header.endian()?;
        let table = header.sections(endian, data)?;
        let mut sections = Vec::with_capacity(table.len());
        for section in table.iter() {
            sections.push(Section {
                name: String::from_utf8_lossy(table.section_name(endian, section)?).into_owned(),
                kind: section.sh_type(endian),
                flags: section.sh_flags(endian),
                align: section.sh_addralign(endian),
                size: section.sh_size(endian),
                data: section.data(endian, data)?,
                relocations: BTreeMap::new(),
            });
        }
        let tables = sections.iter().filter(|section| section.kind == elf::SHT_SYMTAB).count();
        if tables != 1 {
            findings.file(Problem::SymbolTables(tables));
        }
        let table_of_symbols = table.symbols(endian, data, elf::SHT_SYMTAB)?;
        let mut symbols = Vec::with_capacity(table_of_symbols.len());
        for (index, symbol) in table_of_symbols.enumerate() {
            let name = table_of_symbols.symbol_name(endian, symbol)?;
            let home = match table_of_symbols.symbol_section(endian, symbol, index)? {
                Some(section) if section.0 < sections.len() => Home::Section(section.0),
                Some(section) => {
                    let name = String::from_utf8_lossy(name);
                    let problem = format!("symbol {name} is in section {section}, there is none");
                    findings.file(Problem::Unreadable(problem));
                    Home::Undefined
                }
                None => match symbol.st_shndx(endian) {
                    elf::SHN_UNDEF => Home::Undefined,
                    elf::SHN_COMMON => Home::Common,
                    _ => Home::Absolute,
                },
            };
            symbols.push(Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                binding: symbol.st_bind(),
                home,
                value: symbol.st_value(endian),
            });
        }
        let mut image = Self { sections, symbols };
        image.read_relocations(endian, data, &table, table_of_symbols.section(), findings)?;
        Ok(image)
    }

    fn read_relocations(
        &mut self,
        endian: Endianness,
        data: &'data [u8],
        table: &object::read::elf::SectionTable<'data, Header>,
        symbols: object::SectionIndex,
        findings: &mut Findings,
    ) -> object::read::Result<()> {
        // Finds relocation sections that lead in circles.
        RelocationSections::parse(endian, table, symbols)?;
        for (index, section) in table.iter().enumerate() {
            let name = self.sections[index].name.clone();
            let applies_to = section.sh_info(endian) as usize;
            let loaded = self.sections.get(applies_to).is_some_and(Section::is_loaded);
            if section.rel(endian, data)?.is_some() && loaded {
                findings.section(&name, Problem::ImplicitAddends);
            }
            let Some((relocations, link)) = section.rela(endian, data)? else { continue };
            if self.sections.get(applies_to).is_none() || applies_to == 0 || link != symbols {
                findings.section(&name, Problem::StrayRelocations);
                continue;
            }
            for relocation in relocations {
                let symbol = relocation.symbol(endian, false).map_or(0, |symbol| symbol.0);
                let entry = Relocation {
                    kind: relocation.r_type(endian, false),
                    symbol,
                    addend: relocation.r_addend(endian),
                };
                let section = &mut self.sections[applies_to];
                section.relocations.insert(relocation.r_offset(endian), entry);
            }
        }
        Ok(())
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
        if relocation.kind != elf::R_X86_64_64 {
            return None;
        }
        let symbol = self.symbols.get(relocation.symbol)?;
        let Home::Section(home) = symbol.home else { return None };
        let offset = symbol.value.checked_add_signed(relocation.addend)?;
        (offset < self.sections[home].size).then_some(Target { section: home, offset })
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

/// Whether the header is that of an object file for amd64, which is as far as other files get.
fn header_fits(header: &Header, findings: &mut Findings) -> bool {
    let mut fits = true;
    let mut wrong = |what, found: String, expected| {
        findings.file(Problem::Header { what, found, expected });
        fits = false;
    };
    if !header.is_class_64() {
        wrong("the class", format!("{:?}", header.e_ident.class), "64-bit");
        return false;
    }
    let Ok(endian) = header.endian() else {
        wrong("the byte order", format!("{:?}", header.e_ident.data), "little-endian");
        return false;
    };
    if header.is_big_endian() {
        wrong("the byte order", "big-endian".into(), "little-endian");
    }
    let machine = header.e_machine(endian);
    if machine != elf::EM_X86_64 {
        wrong("the machine", format!("{}", machine.0), "x86-64 (62)");
    }
    let kind = header.e_type(endian);
    if kind != elf::ET_REL {
        wrong("the type", format!("{}", kind.0), "relocatable (ET_REL, 1)");
    }
    fits
}
