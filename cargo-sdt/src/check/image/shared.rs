//! Reading a shared object: the loader (`sys/kern/link_elf.c`) goes by segments and by the tables that the
//! dynamic section tells of, so symbols and relocations are read from there. Sections are only for finding
//! what is in the segments.

use std::collections::BTreeMap;

use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SymbolTable};

use super::{Header, Home, Image, Relocation, Symbol, read_sections, read_symbols};
use crate::arch::Arch;
use crate::check::finding::{Findings, Problem};
use crate::check::layout;

const SYMBOL_SIZE: u64 = 24;
const RELOCATION_SIZE: u64 = 24;
const DYNAMIC_SIZE: usize = 16;

/// An entry of the table of program headers.
#[derive(Debug)]
pub(crate) struct Segment<'data> {
    pub(crate) kind: elf::ProgramType,
    pub(crate) flags: elf::ProgramFlags,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Its bytes in the file; `None` if they are not all there.
    pub(crate) data: Option<&'data [u8]>,
}

/// The dynamic section: values by tag. Of several of one tag, the last.
#[derive(Debug, Default)]
pub(crate) struct Dynamic(BTreeMap<i64, u64>);

impl Dynamic {
    fn parse(data: &[u8]) -> Self {
        let entries = data.as_chunks::<DYNAMIC_SIZE>().0.iter().map(|entry| {
            let (tag, value) = entry.split_at(8);
            (number(tag).cast_signed(), number(value))
        });
        Self(entries.take_while(|&(tag, _)| tag != elf::DT_NULL.0).collect())
    }

    /// The value of a tag.
    pub(crate) fn get(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.0.get(&tag.0).copied()
    }
}

/// A table of the symbols by their names' hashes (`DT_HASH`).
#[derive(Debug)]
pub(crate) struct HashTable {
    /// The first symbol of each chain.
    pub(crate) buckets: Vec<u32>,
    /// For each symbol the next one of its chain; 0 is the end.
    pub(crate) chains: Vec<u32>,
}

impl HashTable {
    /// The symbols of a chain, which may have no end.
    pub(crate) fn chain(&self, bucket: usize) -> impl Iterator<Item = usize> + Clone {
        let next = |index: &u32| self.chains.get(*index as usize).copied();
        let chain = std::iter::successors(self.buckets.get(bucket).copied(), next);
        chain.take_while(|&index| index != 0).map(|index| index as usize)
    }
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

pub(super) fn read<'data>(
    arch: Arch,
    header: &'data Header,
    data: &'data [u8],
    findings: &mut Findings,
) -> object::read::Result<Image<'data>> {
    let endian = header.endian()?;
    let table = header.sections(endian, data)?;
    let sections = read_sections(endian, &table, data)?;
    let segments = header.program_headers(endian, data)?.iter().map(|header| Segment {
        kind: header.p_type(endian),
        flags: header.p_flags(endian),
        offset: header.p_offset(endian),
        address: header.p_vaddr(endian),
        size: header.p_memsz(endian),
        data: header.data(endian, data).ok(),
    });
    let mut image = Image {
        arch,
        sections,
        symbols: Vec::new(),
        more_symbols: Vec::new(),
        segments: segments.collect(),
        dynamic: Dynamic::default(),
        hash: None,
    };
    let dynamic = image.segments.iter().rfind(|segment| segment.kind == elf::PT_DYNAMIC);
    image.dynamic = Dynamic::parse(dynamic.and_then(|segment| segment.data).unwrap_or_default());
    let full: SymbolTable<'_, Header> = table.symbols(endian, data, elf::SHT_SYMTAB)?;
    let mut full = read_symbols(endian, &full, image.sections.len(), findings)?;
    for symbol in &mut full {
        image.relate(symbol);
    }
    image.more_symbols = full;
    image.symbols = image.dynamic_symbols(findings);
    image.dynamic_relocations(findings);
    image.hash = image.hash_table(findings);
    Ok(image)
}

impl<'data> Image<'data> {
    /// `length` bytes that the loader puts at an address.
    fn mapped(&self, address: u64, length: u64) -> Option<&'data [u8]> {
        self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD).find_map(|segment| {
            let start = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            segment.data?.get(start..end)
        })
    }

    /// Makes a symbol's value from an address into an offset.
    fn relate(&self, symbol: &mut Symbol) {
        // One in front of its section is far behind its end.
        if let Home::Section(home) = symbol.home {
            symbol.value = symbol.value.wrapping_sub(self.sections[home].address);
        }
    }

    /// The table's bytes, if it is there and whole.
    fn table(
        &self,
        (name, tag): (&'static str, elf::DynamicTag),
        size: u64,
        findings: &mut Findings,
    ) -> &'data [u8] {
        let Some(address) = self.dynamic.get(tag) else {
            findings.file(Problem::NoTable(name));
            return &[];
        };
        let Some(bytes) = self.mapped(address, size) else {
            findings.file(Problem::TableOutside(name));
            return &[];
        };
        bytes
    }

    /// The hash table.
    fn hash_table(&self, findings: &mut Findings) -> Option<HashTable> {
        let address = self.dynamic.get(elf::DT_HASH)?;
        let counts = self.mapped(address, 8)?;
        let [buckets, chains] = [&counts[..4], &counts[4..]].map(number);
        let Some(bytes) = self.mapped(address.checked_add(8)?, (buckets + chains) * 4) else {
            findings.file(Problem::TableOutside("DT_HASH"));
            return None;
        };
        let mut words = bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word));
        let buckets = words.by_ref().take(buckets as usize).collect();
        Some(HashTable { buckets, chains: words.collect() })
    }

    /// The dynamic symbol table, which is as long as the chains of the hash table.
    fn dynamic_symbols(&self, findings: &mut Findings) -> Vec<Symbol> {
        let hash = self.table(("DT_HASH", elf::DT_HASH), 8, findings);
        let count = hash.get(4..8).map_or(0, number);
        let size = count * SYMBOL_SIZE;
        let bytes = self.table(("DT_SYMTAB", elf::DT_SYMTAB), size, findings);
        let size = self.dynamic.get(elf::DT_STRSZ).unwrap_or_default();
        let strings = self.table(("DT_STRTAB", elf::DT_STRTAB), size, findings);
        let mut symbols = Vec::new();
        for entry in bytes.as_chunks::<{ SYMBOL_SIZE as usize }>().0 {
            let start = number(&entry[..4]) as usize;
            let rest = strings.get(start..).unwrap_or_default();
            let Some(end) = rest.iter().position(|&byte| byte == 0) else {
                findings.file(Problem::Unreadable(format!("symbol name at {start} of DT_STRTAB")));
                break;
            };
            let section = number(&entry[6..8]) as u16;
            let mut symbol = Symbol {
                name: String::from_utf8_lossy(&rest[..end]).into_owned(),
                binding: elf::SymbolBind(entry[4] >> 4),
                kind: elf::SymbolType(entry[4] & 15),
                home: match elf::SymbolSection(section) {
                    elf::SHN_UNDEF => Home::Undefined,
                    elf::SHN_COMMON => Home::Common,
                    _ if usize::from(section) < self.sections.len() => {
                        Home::Section(section.into())
                    }
                    number => {
                        if layout::is_reserved(number) {
                            let name = String::from_utf8_lossy(&rest[..end]);
                            findings.symbol(&name, Problem::ReservedSection(section));
                        }
                        Home::Absolute
                    }
                },
                value: number(&entry[8..16]),
                size: number(&entry[16..24]),
            };
            self.relate(&mut symbol);
            symbols.push(symbol);
        }
        symbols
    }

    /// Puts the relocations of both tables to the sections they apply to.
    fn dynamic_relocations(&mut self, findings: &mut Findings) {
        if self.dynamic.get(elf::DT_REL).is_some() {
            findings.file(Problem::ImplicitAddends);
        }
        for (name, tag, size) in [
            ("DT_RELA", elf::DT_RELA, elf::DT_RELASZ),
            ("DT_JMPREL", elf::DT_JMPREL, elf::DT_PLTRELSZ),
        ] {
            let Some(size) = self.dynamic.get(size) else { continue };
            let bytes = self.table((name, tag), size, findings);
            if !size.is_multiple_of(RELOCATION_SIZE) {
                findings.file(Problem::TableOutside(name));
            }
            for entry in bytes.as_chunks::<{ RELOCATION_SIZE as usize }>().0 {
                let (address, info) = (number(&entry[..8]), number(&entry[8..16]));
                let relocation = Relocation {
                    kind: elf::RelocationType(info as u32),
                    symbol: (info >> 32) as usize,
                    addend: number(&entry[16..]).cast_signed(),
                };
                match self.at(address) {
                    Some(target) => {
                        let section = &mut self.sections[target.section];
                        section.relocate(target.offset, relocation);
                    }
                    None => findings.file(Problem::RelocationNowhere(address)),
                }
            }
        }
    }
}
