//! A module's file, taken apart as far as krtld does.

use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, LittleEndian as LE, elf};

use super::Problem;
use crate::check::finding::{self, Findings, Place};
use crate::check::functions::{Defined, Functions};

type Header = elf::FileHeader64<Endianness>;

/// Sections, symbols and relocations.
#[derive(Debug)]
pub(super) struct File<'data> {
    /// All sections, by their number.
    pub(super) sections: Vec<Section<'data>>,
    /// All symbols, by their number.
    pub(super) symbols: Vec<Symbol>,
    /// Number of the section that holds the symbols.
    pub(super) symbol_table: usize,
}

/// A section.
#[derive(Debug)]
pub(super) struct Section<'data> {
    pub(super) name: String,
    pub(super) kind: elf::SectionType,
    pub(super) flags: elf::SectionFlags,
    pub(super) link: usize,
    pub(super) info: usize,
    pub(super) align: u64,
    pub(super) size: u64,
    /// Bytes of an entry, of a table.
    pub(super) entry: u64,
    /// Its bytes in the file; none for `.bss`.
    pub(super) data: &'data [u8],
}

/// A symbol.
#[derive(Debug)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) binding: elf::SymbolBind,
    pub(super) kind: elf::SymbolType,
    pub(super) section: elf::SymbolSection,
    pub(super) value: u64,
    pub(super) size: u64,
}

/// A relocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: elf::RelocationType,
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

impl Section<'_> {
    pub(super) fn is_loaded(&self) -> bool {
        self.flags.contains(elf::SHF_ALLOC)
    }

    pub(super) fn is_code(&self) -> bool {
        self.flags.contains(elf::SHF_EXECINSTR)
    }

    /// `len` bytes at an offset, if they are in the file.
    pub(super) fn bytes(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        self.data.get(start..end)
    }

    /// The relocations in it, if that is what it holds.
    pub(super) fn relocations(&self) -> impl Iterator<Item = Relocation> {
        let entries = if self.kind == elf::SHT_RELA { self.data.as_chunks::<24>().0 } else { &[] };
        entries.iter().map(|entry| {
            let word =
                |at: usize| u64::from_le_bytes(*entry[at..].first_chunk().expect("24 bytes"));
            let info = word(8);
            Relocation {
                offset: word(0),
                kind: elf::RelocationType(info as u32),
                symbol: (info >> 32) as usize,
                addend: word(16).cast_signed(),
            }
        })
    }

    /// The string at an offset.
    pub(super) fn string(&self, offset: u64) -> Option<String> {
        let rest = self.data.get(usize::try_from(offset).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}

impl Symbol {
    pub(super) fn is_local(&self) -> bool {
        self.binding == elf::STB_LOCAL
    }

    pub(super) fn is_undefined(&self) -> bool {
        self.section == elf::SHN_UNDEF
    }
}

impl<'data> File<'data> {
    /// Takes a file apart. `None`, with findings, if it is not an object that krtld would look at, or is
    /// damaged.
    pub(super) fn parse(data: &'data [u8], findings: &mut Findings) -> Option<Self> {
        let header = match Header::parse(data) {
            Ok(header) => header,
            Err(error) => {
                findings.file(finding::Problem::Unreadable(error.to_string()));
                return None;
            }
        };
        if !header_fits(header, findings) {
            return None;
        }
        match read(header, data, findings) {
            Ok(file) => file,
            Err(error) => {
                findings.file(finding::Problem::Unreadable(error.to_string()));
                None
            }
        }
    }

    /// What a symbol is called in messages.
    pub(super) fn shown(&self, symbol: &Symbol) -> String {
        let section = self.sections.get(usize::from(symbol.section.0));
        match section.filter(|_| symbol.name.is_empty()) {
            Some(section) => section.name.clone(),
            None => symbol.name.clone(),
        }
    }

    /// The functions.
    pub(super) fn functions(&self) -> Functions<'_> {
        Functions::new(self.symbols.iter().filter_map(|symbol| {
            let Symbol { kind, value, size, .. } = *symbol;
            let section = self.section_of(symbol)?;
            Some(Defined { name: &symbol.name, kind, section, value, size })
        }))
    }

    /// The number of the section that a symbol is defined in.
    pub(super) fn section_of(&self, symbol: &Symbol) -> Option<usize> {
        let section = usize::from(symbol.section.0);
        (!symbol.is_undefined() && section < self.sections.len()).then_some(section)
    }

    /// The place that an 8-byte relocation makes the address of, if it is one in this module.
    pub(super) fn target(&self, relocation: &Relocation) -> Option<(usize, u64)> {
        let symbol = self.symbols.get(relocation.symbol)?;
        let section = self.section_of(symbol)?;
        let offset = symbol.value.checked_add_signed(relocation.addend)?;
        let address = relocation.kind == elf::R_X86_64_64;
        (address && offset < self.sections[section].size).then_some((section, offset))
    }

    /// The relocation sections of sections that are loaded, with what they apply to.
    pub(super) fn relocated(&self) -> impl Iterator<Item = (&Section<'data>, &Section<'data>)> {
        let tables = self.sections.iter().filter(|section| section.kind == elf::SHT_RELA);
        tables.filter_map(|table| {
            let target = self.sections.get(table.info)?;
            target.is_loaded().then_some((table, target))
        })
    }
}

/// In the order in which krtld looks at the header.
fn header_fits(header: &Header, findings: &mut Findings) -> bool {
    let ident = &header.e_ident;
    let wrong = |findings: &mut Findings, what, found, expected| {
        findings.illumos(Place::File, Problem::Header { what, found, expected });
        false
    };
    if ident.class != elf::ELFCLASS64 {
        return wrong(findings, "the class", ident.class.0.into(), "64-bit (2)");
    }
    if ident.data != elf::ELFDATA2LSB {
        return wrong(findings, "the byte order", ident.data.0.into(), "little-endian (1)");
    }
    let Ok(endian) = header.endian() else { return false };
    let machine = header.e_machine(endian);
    if machine != elf::EM_X86_64 {
        return wrong(findings, "the machine", machine.0, "x86-64 (62)");
    }
    let kind = header.e_type(endian);
    if kind != elf::ET_REL {
        return wrong(findings, "the type", kind.0, "relocatable files (ET_REL, 1)");
    }
    true
}

fn read<'data>(
    header: &'data Header,
    data: &'data [u8],
    findings: &mut Findings,
) -> object::read::Result<Option<File<'data>>> {
    let endian = header.endian()?;
    let table = header.sections(endian, data)?;
    if table.len() >= usize::from(elf::SHN_LORESERVE) {
        findings.illumos(Place::File, Problem::TooManySections(table.len()));
        return Ok(None);
    }
    let mut sections = Vec::with_capacity(table.len());
    for section in table.iter() {
        sections.push(Section {
            name: String::from_utf8_lossy(table.section_name(endian, section)?).into_owned(),
            kind: section.sh_type(endian),
            flags: section.sh_flags(endian),
            link: section.sh_link(endian) as usize,
            info: section.sh_info(endian) as usize,
            align: section.sh_addralign(endian),
            size: section.sh_size(endian),
            entry: section.sh_entsize(endian),
            data: section.data(endian, data)?,
        });
    }
    let tables = || sections.iter().enumerate().filter(|(_, of)| of.kind == elf::SHT_SYMTAB);
    let (Some((symbol_table, symbols)), 1) = (tables().next(), tables().count()) else {
        findings.illumos(Place::File, Problem::SymbolTables(tables().count()));
        return Ok(None);
    };
    let strings = sections.get(symbols.link).filter(|strings| strings.kind == elf::SHT_STRTAB);
    let Some(strings) = strings else {
        findings.illumos(Place::File, Problem::SymbolStrings);
        return Ok(None);
    };
    let symbols = read_symbols(symbols.data, strings, findings);
    Ok(Some(File { sections, symbols, symbol_table }))
}

fn read_symbols(data: &[u8], strings: &Section<'_>, findings: &mut Findings) -> Vec<Symbol> {
    let Ok(entries) = object::pod::slice_from_all_bytes::<elf::Sym64<LE>>(data) else {
        let reason = "the symbol table has no whole number of entries";
        findings.file(finding::Problem::Unreadable(reason.into()));
        return Vec::new();
    };
    let read = |(index, symbol): (usize, &elf::Sym64<LE>)| {
        let name = strings.string(symbol.st_name(LE).into());
        if name.is_none() {
            let problem = format!("symbol {index} has its name outside of the string table");
            findings.file(finding::Problem::Unreadable(problem));
        }
        Symbol {
            name: name.unwrap_or_default(),
            binding: symbol.st_bind(),
            kind: symbol.st_type(),
            section: symbol.st_shndx(LE),
            value: symbol.st_value(LE),
            size: symbol.st_size(LE),
        }
    };
    entries.iter().enumerate().map(read).collect()
}
