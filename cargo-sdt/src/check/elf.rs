//! A view of a module's file: its sections with their relocations, its symbols, and the segments and tables of a shared
//! object. It contains the data that the loaders read: `sys/kern/link_elf_obj.c` (relocatable files),
//! `sys/kern/link_elf.c` (shared objects: symbols and relocations from the tables of the dynamic section), krtld's
//! `kobj.c`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, LittleEndian as LE, elf};

use super::finding::{Finding, Findings, Place};
use super::rules::Rule;
use crate::arch::{Arch, ModuleKind};
use crate::platform::Os;

type Header = elf::FileHeader64<Endianness>;

/// Bytes of a symbol, and of a relocation.
const ENTRY: usize = 24;

/// A module's file.
#[derive(Debug)]
pub(super) struct Elf<'data> {
    pub(super) os: Os,
    pub(super) arch: Arch,
    /// The sections, by number.
    pub(super) sections: Vec<Section<'data>>,
    /// The symbols that relocations refer to, by number.
    pub(super) symbols: Vec<Symbol>,
    /// The symbols of a shared object's other table, which is for debuggers and fbt.
    pub(super) more_symbols: Vec<Symbol>,
    /// The segments of a shared object.
    pub(super) segments: Vec<Segment<'data>>,
    /// The end of the table of segments in the file.
    pub(super) segments_end: u64,
    /// The dynamic section of a shared object: values by tag. Of several of one tag, the last.
    dynamic: BTreeMap<i64, u64>,
    pub(super) hash: Option<HashTable>,
    /// The findings.
    pub(super) findings: Findings,
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
    /// Its address in a shared object.
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The size of an entry in bytes, if the section is a table.
    pub(super) entry: u64,
    /// Its bytes in the file; empty for `.bss`.
    pub(super) data: &'data [u8],
    /// The relocations that apply to it, in the order of their offsets.
    pub(super) relocations: Vec<Relocation>,
}

/// A relocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: elf::RelocationType,
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

/// A symbol.
#[derive(Debug)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) binding: elf::SymbolBind,
    pub(super) kind: elf::SymbolType,
    pub(super) home: Home,
    /// In a section: the offset in it.
    pub(super) value: u64,
    pub(super) size: u64,
}

/// The definition of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Undefined,
    Absolute,
    Common,
    Section(usize),
}

/// An offset in a section, to which an address in the module points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) section: usize,
    pub(super) offset: u64,
}

/// An entry of the table of program headers.
#[derive(Debug)]
pub(super) struct Segment<'data> {
    pub(super) kind: elf::ProgramType,
    pub(super) flags: elf::ProgramFlags,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) size: u64,
    /// Its bytes in the file; `None` if the file does not contain all of them.
    pub(super) data: Option<&'data [u8]>,
}

/// The table of symbols by the hashes of their names (`DT_HASH`).
#[derive(Debug)]
pub(super) struct HashTable {
    /// The first symbol of each chain.
    pub(super) buckets: Vec<u32>,
    /// For each symbol, the next one of its chain; 0 at the end.
    pub(super) chains: Vec<u32>,
}

impl HashTable {
    /// Returns the symbols of a chain, which may have no end.
    pub(super) fn chain(&self, bucket: usize) -> impl Iterator<Item = usize> + Clone {
        let next = |index: &u32| self.chains.get(*index as usize).copied();
        let chain = std::iter::successors(self.buckets.get(bucket).copied(), next);
        chain.take_while(|&index| index != 0).map(|index| index as usize)
    }
}

impl Section<'_> {
    pub(super) fn is_loaded(&self) -> bool {
        self.flags.contains(elf::SHF_ALLOC)
    }

    pub(super) fn is_writable(&self) -> bool {
        self.flags.contains(elf::SHF_WRITE)
    }

    pub(super) fn is_code(&self) -> bool {
        self.flags.contains(elf::SHF_EXECINSTR)
    }

    /// Returns the offsets of the elements of this size whose bytes are in the file.
    pub(super) fn elements(&self, each: usize) -> impl Iterator<Item = u64> + use<> {
        (0..self.data.len() as u64).step_by(each)
    }

    /// Returns `len` bytes at an offset, if they are in the file.
    pub(super) fn bytes(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        self.data.get(start..end)
    }

    /// Returns the 32-bit number at an offset.
    pub(super) fn u32(&self, offset: u64) -> Option<u32> {
        Some(number(self.bytes(offset, 4)?) as u32)
    }

    /// Returns the 64-bit number at an offset.
    pub(super) fn u64(&self, offset: u64) -> Option<u64> {
        Some(number(self.bytes(offset, 8)?))
    }

    /// Returns the relocations that apply to a range of offsets.
    pub(super) fn relocations_in(&self, range: Range<u64>) -> &[Relocation] {
        let at = |offset| self.relocations.partition_point(|of| of.offset < offset);
        let start = at(range.start);
        &self.relocations[start..at(range.end).max(start)]
    }

    /// Returns the relocation at an offset; of several, the last.
    pub(super) fn relocation(&self, offset: u64) -> Option<&Relocation> {
        self.relocations_in(offset..offset.checked_add(1)?).last()
    }
}

impl Symbol {
    pub(super) fn is_undefined(&self) -> bool {
        self.home == Home::Undefined
    }

    pub(super) fn is_weak(&self) -> bool {
        self.binding == elf::STB_WEAK
    }

    pub(super) fn is_function(&self) -> bool {
        matches!(self.kind, elf::STT_FUNC | elf::STT_GNU_IFUNC)
    }
}

impl<'data> Elf<'data> {
    /// Reads a file.
    ///
    /// # Errors
    /// The loader would reject the file, or the file is too damaged to apply the rules.
    pub(super) fn parse(os: Os, data: &'data [u8]) -> Result<Self, Vec<Finding>> {
        let one = |rule, details: &[&dyn Display]| vec![Finding::new(Place::File, rule, details)];
        let unreadable = |error: object::Error| one(Rule::Unreadable, &[&error]);
        let header = Header::parse(data).map_err(unreadable)?;
        let arch = header_fits(os, header).map_err(|(what, found, loader, expected)| {
            one(Rule::Header, &[&what, &found, &loader, &expected])
        })?;
        let mut this = Self::read(os, arch, header, data).map_err(unreadable)?;
        let readable = match arch.module_kind() {
            ModuleKind::Relocatable => this.read_relocatable(),
            ModuleKind::Shared => this.read_shared(),
        };
        for section in &mut this.sections {
            section.relocations.sort_by_key(|of| of.offset);
        }
        if readable {
            return Ok(this);
        }
        let (Ok(all) | Err(all)) = this.findings.done();
        Err(all)
    }

    fn read(
        os: Os,
        arch: Arch,
        header: &'data Header,
        data: &'data [u8],
    ) -> object::read::Result<Self> {
        let endian = header.endian()?;
        let table = header.sections(endian, data)?;
        let mut sections = Vec::with_capacity(table.len());
        for section in table.iter() {
            sections.push(Section {
                name: String::from_utf8_lossy(table.section_name(endian, section)?).into_owned(),
                kind: section.sh_type(endian),
                flags: section.sh_flags(endian),
                link: section.sh_link(endian) as usize,
                info: section.sh_info(endian) as usize,
                align: section.sh_addralign(endian),
                address: section.sh_addr(endian),
                offset: section.sh_offset(endian),
                size: section.sh_size(endian),
                entry: section.sh_entsize(endian),
                data: section.data(endian, data)?,
                relocations: Vec::new(),
            });
        }
        let segments = header.program_headers(endian, data)?.iter().map(|header| Segment {
            kind: header.p_type(endian),
            flags: header.p_flags(endian),
            offset: header.p_offset(endian),
            address: header.p_vaddr(endian),
            size: header.p_memsz(endian),
            data: header.data(endian, data).ok(),
        });
        let size = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
        Ok(Self {
            os,
            arch,
            sections,
            segments: segments.collect(),
            segments_end: header.e_phoff(endian).saturating_add(size),
            symbols: Vec::new(),
            more_symbols: Vec::new(),
            dynamic: BTreeMap::new(),
            hash: None,
            findings: Findings::default(),
        })
    }

    /// Reads the symbols and relocations of a relocatable file. Returns whether there is a symbol table.
    fn read_relocatable(&mut self) -> bool {
        let loader = loader(self.os);
        let of_kind =
            |kind| move |(_, section): &(usize, &Section<'_>)| -> bool { section.kind == kind };
        let mut tables = self.sections.iter().enumerate().filter(of_kind(elf::SHT_SYMTAB));
        let (Some((symbols, table)), 0) = (tables.next(), tables.count()) else {
            let count = self.sections.iter().filter(|of| of.kind == elf::SHT_SYMTAB).count();
            self.findings.file(Rule::SymbolTables, &[&count, &loader]);
            return false;
        };
        let strings = self.sections.get(table.link).filter(|of| of.kind == elf::SHT_STRTAB);
        let Some(strings) = strings else {
            self.findings.file(Rule::SymbolStrings, &[&loader]);
            return false;
        };
        self.symbols = self.read_symbols(table.data, strings.data);
        for index in 0..self.sections.len() {
            let Section { kind, link, info, data, ref name, .. } = self.sections[index];
            if kind == elf::SHT_REL {
                self.findings.section(name, Rule::ImplicitAddends, &[]);
            }
            if kind != elf::SHT_RELA {
                continue;
            }
            if info == 0 || info >= self.sections.len() || link != symbols {
                self.findings.section(name, Rule::StrayRelocations, &[]);
                continue;
            }
            self.sections[info].relocations.extend(relocations(data));
        }
        true
    }

    /// Reads the tables of a shared object. Always returns `true`: the rules also use its sections.
    fn read_shared(&mut self) -> bool {
        let dynamic = self.segments.iter().rfind(|segment| segment.kind == elf::PT_DYNAMIC);
        let dynamic = dynamic.and_then(|segment| segment.data).unwrap_or_default();
        let entries = dynamic.as_chunks::<16>().0.iter();
        let entries = entries.map(|entry| (number(&entry[..8]).cast_signed(), number(&entry[8..])));
        self.dynamic = entries.take_while(|&(tag, _)| tag != elf::DT_NULL.0).collect();
        if let Some(table) = self.sections.iter().find(|of| of.kind == elf::SHT_SYMTAB) {
            let strings = self.sections.get(table.link).map_or(&[][..], |of| of.data);
            self.more_symbols = self.read_symbols(table.data, strings);
        }
        let counts = self.table(("DT_HASH", elf::DT_HASH), 8);
        let [buckets, chains] = [counts.get(..4), counts.get(4..)].map(|of| of.map_or(0, number));
        let size = chains * ENTRY as u64;
        let symbols = self.table(("DT_SYMTAB", elf::DT_SYMTAB), size);
        let size = self.tag(elf::DT_STRSZ).unwrap_or_default();
        let strings = self.table(("DT_STRTAB", elf::DT_STRTAB), size);
        self.symbols = self.read_symbols(symbols, strings);
        self.read_dynamic_relocations();
        if !counts.is_empty() {
            let size = 8 + (buckets + chains) * 4;
            let table = self.table(("DT_HASH", elf::DT_HASH), size);
            let mut words = table.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word));
            let buckets = words.by_ref().skip(2).take(buckets as usize).collect();
            self.hash = Some(HashTable { buckets, chains: words.collect() });
        }
        true
    }

    /// Adds the relocations of both tables to the sections they apply to.
    fn read_dynamic_relocations(&mut self) {
        if self.tag(elf::DT_REL).is_some() {
            self.findings.file(Rule::ImplicitAddends, &[]);
        }
        for (name, tag, size) in [
            ("DT_RELA", elf::DT_RELA, elf::DT_RELASZ),
            ("DT_JMPREL", elf::DT_JMPREL, elf::DT_PLTRELSZ),
        ] {
            let Some(size) = self.tag(size) else { continue };
            let bytes = self.table((name, tag), size);
            if !size.is_multiple_of(ENTRY as u64) {
                self.findings.file(Rule::TableOutside, &[&name]);
            }
            for relocation in relocations(bytes) {
                let address = relocation.offset;
                match self.at(address) {
                    Some(Target { section, offset }) => {
                        let relocation = Relocation { offset, ..relocation };
                        self.sections[section].relocations.push(relocation);
                    }
                    None => {
                        self.findings
                            .file(Rule::RelocationNowhere, &[&format_args!("{address:#x}")]);
                    }
                }
            }
        }
    }

    fn read_symbols(&self, table: &[u8], strings: &[u8]) -> Vec<Symbol> {
        let (entries, []) = table.as_chunks::<ENTRY>() else {
            let reason = "the symbol table is not a whole number of entries";
            self.findings.file(Rule::Unreadable, &[&reason]);
            return Vec::new();
        };
        let mut symbols = Vec::with_capacity(entries.len());
        for entry in entries {
            let (symbol, _) = object::pod::from_bytes::<elf::Sym64<LE>>(entry).expect("24 bytes");
            let Some(name) = string(strings, symbol.st_name(LE).into()) else {
                let reason =
                    format!("symbol {} has its name outside of the strings", symbols.len());
                self.findings.file(Rule::Unreadable, &[&reason]);
                return symbols;
            };
            let mut value = symbol.st_value(LE);
            let home = match symbol.st_shndx(LE) {
                elf::SHN_UNDEF => Home::Undefined,
                elf::SHN_ABS => Home::Absolute,
                elf::SHN_COMMON => Home::Common,
                elf::SymbolSection(index) if usize::from(index) < self.sections.len() => {
                    // If the value is before its section, the subtraction wraps to an offset far after the section's
                    // end.
                    value = value.wrapping_sub(match self.arch.module_kind() {
                        ModuleKind::Relocatable => 0,
                        ModuleKind::Shared => self.sections[usize::from(index)].address,
                    });
                    Home::Section(index.into())
                }
                elf::SymbolSection(index) => {
                    self.findings.symbol(&name, Rule::SectionNumber, &[&index]);
                    Home::Absolute
                }
            };
            let (binding, kind, size) = (symbol.st_bind(), symbol.st_type(), symbol.st_size(LE));
            symbols.push(Symbol { name, binding, kind, home, value, size });
        }
        symbols
    }

    /// Returns the value of a tag of the dynamic section.
    pub(super) fn tag(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.dynamic.get(&tag.0).copied()
    }

    /// Returns the bytes of a table that the dynamic section names, if they are all in a segment.
    fn table(&self, (name, tag): (&'static str, elf::DynamicTag), size: u64) -> &'data [u8] {
        let Some(address) = self.tag(tag) else {
            self.findings.file(Rule::NoTable, &[&name]);
            return &[];
        };
        let mapped = self.segments.iter().filter(|of| of.kind == elf::PT_LOAD).find_map(|of| {
            let start = usize::try_from(address.checked_sub(of.address)?).ok()?;
            of.data?.get(start..start.checked_add(usize::try_from(size).ok()?)?)
        });
        mapped.unwrap_or_else(|| {
            self.findings.file(Rule::TableOutside, &[&name]);
            &[]
        })
    }

    /// Returns the sections that are loaded.
    pub(super) fn loaded(&self) -> impl Iterator<Item = &Section<'data>> {
        self.sections.iter().filter(|section| section.is_loaded())
    }

    /// Returns the loaded sections of a name.
    pub(super) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Section<'data>> {
        self.loaded().filter(move |section| section.name == name)
    }

    /// Returns the bytes that all loaded sections take in memory, without padding.
    pub(super) fn size(&self) -> u64 {
        self.loaded().map(|section| section.size).fold(0, u64::saturating_add)
    }

    /// Returns all symbols, without the null symbols at the start of the tables.
    pub(super) fn all_symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().skip(1).chain(self.more_symbols.iter().skip(1))
    }

    /// Returns the name of a symbol for messages. A section's symbol has no name, so the name of the section is used.
    pub(super) fn shown(&self, symbol: &Symbol) -> String {
        match symbol.home {
            Home::Section(section) if symbol.name.is_empty() => self.sections[section].name.clone(),
            _ => symbol.name.clone(),
        }
    }

    /// Returns the section of a target.
    pub(super) fn section_of(&self, target: Target) -> &Section<'data> {
        &self.sections[target.section]
    }

    /// Returns the NUL-terminated string at a target.
    pub(super) fn string(&self, target: Target) -> Option<String> {
        string(self.section_of(target).data, target.offset)
    }

    /// Returns the place in the module to which a relocation of 8 bytes refers.
    pub(super) fn target(&self, relocation: &Relocation) -> Option<Target> {
        if self.is_relative(relocation) {
            return self.at(relocation.addend.cast_unsigned());
        }
        let symbol = self.symbols.get(relocation.symbol)?;
        let Home::Section(section) = symbol.home else { return None };
        let offset = symbol.value.checked_add_signed(relocation.addend)?;
        let address = relocation.kind == address_kind(self.arch);
        (address && offset < self.sections[section].size).then_some(Target { section, offset })
    }

    /// Returns the place in the module to which the address at an offset of a section will point.
    pub(super) fn address(&self, section: &Section<'_>, offset: u64) -> Option<Target> {
        self.target(section.relocation(offset)?)
    }

    /// Returns the undefined symbol whose address will be at an offset of a section.
    pub(super) fn import(&self, section: &Section<'_>, offset: u64) -> Option<&Symbol> {
        let relocation = section.relocation(offset)?;
        let symbol = self.symbols.get(relocation.symbol)?;
        let address = relocation.kind == address_kind(self.arch) && relocation.addend == 0;
        (address && symbol.is_undefined()).then_some(symbol)
    }

    /// Returns whether a relocation refers to a place in the shared object by its address, and not by a symbol.
    pub(super) fn is_relative(&self, relocation: &Relocation) -> bool {
        match self.arch {
            Arch::X86_64 => false,
            Arch::Aarch64 => relocation.kind == elf::R_AARCH64_RELATIVE,
            Arch::Riscv64 => relocation.kind == elf::R_RISCV_RELATIVE,
        }
    }

    /// Returns the place at an address of a shared object.
    fn at(&self, address: u64) -> Option<Target> {
        self.sections.iter().enumerate().find_map(|(index, section)| {
            let offset = address.checked_sub(section.address)?;
            let inside = section.is_loaded() && offset < section.size;
            inside.then_some(Target { section: index, offset })
        })
    }

    /// Returns whether relocations apply to a section, or refer to it.
    pub(super) fn is_used(&self, section: usize) -> bool {
        let refers = |of: &Relocation| {
            self.symbols.get(of.symbol).is_some_and(|of| of.home == Home::Section(section))
        };
        !self.sections[section].relocations.is_empty()
            || self.loaded().any(|of| of.relocations.iter().any(refers))
    }

    /// Returns the places in a section of code where code or data begin, according to the mapping symbols of aarch64
    /// and riscv64 (`$x`, `$d`), and whether each is code. The bytes before the first symbol come from the linker, and
    /// are code.
    pub(super) fn code_marks(&self, section: usize) -> Vec<(u64, bool)> {
        let mut marks = vec![(0, true)];
        let here = self.all_symbols().filter(|symbol| symbol.home == Home::Section(section));
        marks.extend(here.filter_map(|symbol| match symbol.name.as_bytes() {
            [b'$', b'd', ..] => Some((symbol.value, false)),
            [b'$', b'x', ..] => Some((symbol.value, true)),
            _ => None,
        }));
        // Of several marks at one place the last counts.
        marks.sort_by_key(|&(offset, _)| offset);
        marks
    }
}

/// Returns the name of the loader for messages.
pub(super) fn loader(os: Os) -> &'static str {
    match os {
        Os::FreeBsd => "FreeBSD's loader",
        Os::Illumos => "krtld",
    }
}

/// Returns the little-endian number of up to 8 bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Returns the NUL-terminated string at an offset.
pub(super) fn string(bytes: &[u8], offset: u64) -> Option<String> {
    let rest = bytes.get(usize::try_from(offset).ok()?..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn relocations(table: &[u8]) -> impl Iterator<Item = Relocation> {
    table.as_chunks::<ENTRY>().0.iter().map(|entry| {
        let info = number(&entry[8..16]);
        Relocation {
            offset: number(&entry[..8]),
            kind: elf::RelocationType(info as u32),
            symbol: (info >> 32) as usize,
            addend: number(&entry[16..]).cast_signed(),
        }
    })
}

/// Returns the type of a relocation that stores the address of a symbol.
fn address_kind(arch: Arch) -> elf::RelocationType {
    match arch {
        Arch::X86_64 => elf::R_X86_64_64,
        Arch::Aarch64 => elf::R_AARCH64_ABS64,
        Arch::Riscv64 => elf::R_RISCV_64,
    }
}

/// A field of the header that the loader refuses, its value, the loader, and the value that the loader requires.
type Refused = (&'static str, u32, String, &'static str);

/// Returns the architecture of a file if the loader accepts its header.
fn header_fits(os: Os, header: &Header) -> Result<Arch, Refused> {
    let (ident, endian) = (&header.e_ident, Endianness::Little);
    let any = |what, found, expected| (what, found, loader(os).to_owned(), expected);
    if ident.class != elf::ELFCLASS64 {
        return Err(any("the class", ident.class.0.into(), "64-bit (2)"));
    }
    if ident.data != elf::ELFDATA2LSB {
        return Err(any("the byte order", ident.data.0.into(), "little-endian (1)"));
    }
    let machine = header.e_machine(endian);
    let arch = Arch::of_machine(machine).filter(|&arch| os.runs_on(arch).is_ok());
    let machines = match os {
        Os::FreeBsd => "x86-64 (62), AArch64 (183) and RISC-V (243)",
        Os::Illumos => "x86-64 (62)",
    };
    let arch = arch.ok_or_else(|| any("the machine", machine.0.into(), machines))?;
    let (kind, expected) = match arch.module_kind() {
        ModuleKind::Relocatable => (elf::ET_REL, "relocatable files (ET_REL, 1)"),
        ModuleKind::Shared => (elf::ET_DYN, "shared objects (ET_DYN, 3)"),
    };
    let (found, version) = (header.e_type(endian), header.e_version(endian));
    let (what, found, expected) = if found != kind {
        ("the type", found.0.into(), expected)
    } else if version != u32::from(elf::EV_CURRENT.0) {
        ("the version", version, "1 (EV_CURRENT)")
    } else if header.e_shnum(endian) == 0 {
        // If there are too many sections for this field, the number is stored elsewhere, where neither loader looks.
        ("the number of sections", 0, "1 to 65279")
    } else {
        return Ok(arch);
    };
    let loader = match os {
        Os::FreeBsd => format!("{} for {}", loader(os), arch.freebsd_name()),
        Os::Illumos => loader(os).to_owned(),
    };
    Err((what, found, loader, expected))
}
