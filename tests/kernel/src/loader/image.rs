//! Where a file's sections go, and what they hold once everything is relocated.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use object_core::LittleEndian as LE;
use object_core::elf;

use super::elf::{Object, has, is_loaded};
use super::error::LoadError;
use super::relocate::{Relocation, RelocationError, x86_64};

/// Bytes in a page: what a protection applies to.
pub const PAGE: usize = 4096;

/// Most memory that one module may take.
const MAX_SIZE: usize = 64 << 20;

/// What may be done with a stretch of memory. None may be both written and executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Code.
    Execute,
    /// Constants.
    Read,
    /// Data.
    Write,
}

/// Pages with one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where they start, from the image's start; a multiple of [`PAGE`].
    pub offset: usize,
    /// Bytes; a multiple of [`PAGE`].
    pub size: usize,
    /// What may be done with them.
    pub protection: Protection,
}

/// A section in its place.
#[derive(Clone, Debug)]
struct Placed {
    /// Its index in the file.
    index: usize,
    name: String,
    kind: elf::SectionType,
    offset: usize,
    size: usize,
    protection: Protection,
}

/// A global symbol that the module defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: u64,
}

/// A module in the form in which it is mapped.
#[derive(Clone, Debug)]
pub struct Image {
    base: u64,
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    sections: Vec<Placed>,
    symbols: Vec<Symbol>,
}

impl Image {
    /// Lays the sections out and fills them, with no address yet.
    ///
    /// Sections of one protection come together, each group on pages of its own: what FreeBSD reaches
    /// with the linker script of its kernel modules (`ldscript.kmod.amd64`).
    ///
    /// # Errors
    /// When a section cannot be placed or is not inside the file.
    pub fn layout(object: &Object<'_>) -> Result<Self, LoadError> {
        let mut sections = Vec::new();
        for (index, section) in object.sections.iter().enumerate() {
            if !is_loaded(section) {
                continue;
            }
            let name = object.section_name(index)?;
            let writable = has(section, elf::SHF_WRITE);
            let protection = match (writable, has(section, elf::SHF_EXECINSTR)) {
                (true, true) => return Err(LoadError::WritableCode { section: name }),
                (true, false) => Protection::Write,
                (false, true) => Protection::Execute,
                (false, false) => Protection::Read,
            };
            let alignment = section.sh_addralign.get(LE);
            if !alignment.is_power_of_two() || alignment > PAGE as u64 {
                return Err(LoadError::Alignment { section: name, alignment });
            }
            let size = usize::try_from(section.sh_size.get(LE))
                .ok()
                .filter(|&size| size <= MAX_SIZE)
                .ok_or(LoadError::TooLarge)?;
            // The alignment sits in `offset` until the place is known.
            let offset = alignment as usize;
            sections.push(Placed {
                index,
                name,
                kind: section.sh_type.get(LE),
                offset,
                size,
                protection,
            });
        }
        sections.sort_by_key(|section| section.protection);

        let mut segments: Vec<Segment> = Vec::new();
        let mut end = 0usize;
        for section in &mut sections {
            match segments.last_mut() {
                Some(segment) if segment.protection == section.protection => {
                    end = end.next_multiple_of(section.offset);
                }
                _ => {
                    end = end.next_multiple_of(PAGE);
                    let protection = section.protection;
                    segments.push(Segment { offset: end, size: 0, protection });
                }
            }
            section.offset = end;
            end += section.size;
            if end > MAX_SIZE {
                return Err(LoadError::TooLarge);
            }
            if let Some(segment) = segments.last_mut() {
                segment.size = (end - segment.offset).next_multiple_of(PAGE);
            }
        }

        let mut bytes = alloc::vec![0; end.next_multiple_of(PAGE)];
        for section in sections.iter().filter(|section| section.kind != elf::SHT_NOBITS) {
            let contents = object.contents(section.index)?;
            bytes[section.offset..section.offset + section.size].copy_from_slice(contents);
        }
        Ok(Self { base: 0, bytes, segments, sections, symbols: Vec::new() })
    }

    /// Bytes that the image takes, a multiple of [`PAGE`].
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Where the image is to be mapped.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Everything the image holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its protections, in order, without gaps.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The global symbols that the module defines.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Does all relocations for the address `base`, with symbols that the file does not define coming
    /// from `lookup`.
    ///
    /// # Errors
    /// When a symbol is undefined or out of place, or a relocation cannot be done.
    pub fn link(
        &mut self,
        object: &Object<'_>,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<(), LoadError> {
        self.base = base;
        for (index, section) in object.sections.iter().enumerate() {
            let target = section.sh_info.get(LE) as usize;
            let is_for_memory = |target: usize| {
                let section = object.sections.get(target);
                section.is_none_or(|section| has(section, elf::SHF_ALLOC))
            };
            if section.sh_size.get(LE) == 0 {
                continue;
            }
            match section.sh_type.get(LE) {
                elf::SHT_RELA if is_for_memory(target) => {
                    let placed = self
                        .sections
                        .iter()
                        .find(|placed| placed.index == target)
                        .ok_or(LoadError::RelocationSection { section: index })?
                        .clone();
                    self.relocate(object, index, &placed, lookup)?;
                }
                elf::SHT_REL if is_for_memory(target) => {
                    return Err(LoadError::RelocationSection { section: index });
                }
                _ => {}
            }
        }
        for (index, symbol) in object.symbols.iter().enumerate().skip(1) {
            let defined = symbol.st_shndx.get(LE) != elf::SHN_UNDEF;
            if defined && symbol.st_bind() != elf::STB_LOCAL {
                let name = object.symbol_name(index)?;
                let address = self.defined(object, index)?;
                self.symbols.push(Symbol { name, address });
            }
        }
        Ok(())
    }

    fn relocate(
        &mut self,
        object: &Object<'_>,
        index: usize,
        target: &Placed,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<(), LoadError> {
        for entry in object.relocations(index)? {
            let kind = entry.r_type(LE, false);
            let number = entry.r_sym(LE, false) as usize;
            let offset = entry.r_offset.get(LE);
            let refuse = |error| LoadError::Relocation {
                section: target.name.clone(),
                offset,
                symbol: number,
                error,
            };
            x86_64::check(kind).map_err(refuse)?;
            let symbol =
                if x86_64::uses_symbol(kind) { self.symbol(object, number, lookup)? } else { 0 };
            let at = usize::try_from(offset)
                .ok()
                .filter(|&at| at <= target.size)
                .ok_or_else(|| refuse(RelocationError::Place))?;
            let relocation = Relocation {
                kind,
                place: self.base + (target.offset + at) as u64,
                symbol,
                addend: entry.r_addend.get(LE),
                base: self.base,
            };
            let rest = &mut self.bytes[target.offset + at..target.offset + target.size];
            x86_64::apply(&relocation, rest).map_err(refuse)?;
        }
        Ok(())
    }

    /// `elf_obj_lookup`: the file itself, then what its section names imply, then everyone else.
    fn symbol(
        &self,
        object: &Object<'_>,
        index: usize,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<u64, LoadError> {
        let symbol = object.symbols.get(index).ok_or(LoadError::SymbolIndex { index })?;
        if symbol.st_shndx.get(LE) != elf::SHN_UNDEF {
            return self.defined(object, index);
        }
        let name = object.symbol_name(index)?;
        // "Local, but undefined? huh?"
        if symbol.st_bind() == elf::STB_LOCAL || name.is_empty() {
            return Err(LoadError::Undefined { name });
        }
        match self.section_edge(&name).or_else(|| lookup(&name)) {
            Some(address) => Ok(address),
            None if symbol.st_bind() == elf::STB_WEAK => Ok(0),
            None => Err(LoadError::Undefined { name }),
        }
    }

    fn defined(&self, object: &Object<'_>, index: usize) -> Result<u64, LoadError> {
        let symbol = &object.symbols[index];
        let value = symbol.st_value.get(LE);
        if symbol.st_shndx.get(LE) == elf::SHN_ABS {
            return Ok(value);
        }
        let section = usize::from(symbol.st_shndx.get(LE).0);
        match self.sections.iter().find(|placed| placed.index == section) {
            Some(placed) if value <= placed.size as u64 => {
                Ok(self.base + placed.offset as u64 + value)
            }
            _ => Err(LoadError::SymbolPlace { name: object.symbol_name(index)? }),
        }
    }

    /// `link_elf_fix_link_set`: `__start_NAME` and `__stop_NAME` are the edges of the first section of
    /// that name.
    fn section_edge(&self, symbol: &str) -> Option<u64> {
        if let Some(name) = symbol.strip_prefix("__start_") {
            self.section(name).map(|section| self.base + section.offset as u64)
        } else {
            let section = self.section(symbol.strip_prefix("__stop_")?)?;
            Some(self.base + (section.offset + section.size) as u64)
        }
    }

    fn section(&self, name: &str) -> Option<&Placed> {
        self.sections.iter().filter(|s| s.name == name).min_by_key(|section| section.index)
    }

    /// The pointers in a linker set: `link_elf_lookup_set` takes the first section named `set_` and the
    /// set's name, and no other. An unfinished pointer at its end is not one.
    pub fn set(&self, name: &str) -> impl Iterator<Item = u64> {
        let section = self
            .sections
            .iter()
            .filter(|section| section.name.strip_prefix("set_").is_some_and(|rest| rest == name));
        self.pointers(section.min_by_key(|section| section.index))
    }

    /// The functions to be called when the module is in place, or before it goes.
    pub fn function_array(&self, kind: elf::SectionType) -> impl Iterator<Item = u64> {
        self.sections
            .iter()
            .filter(move |section| section.kind == kind)
            .flat_map(|section| self.pointers(Some(section)))
            // As link_elf_invoke_cbs does.
            .filter(|&function| function != 0 && function != u64::MAX)
    }

    fn pointers(&self, section: Option<&Placed>) -> impl Iterator<Item = u64> {
        let range = section.map_or(0..0, |section| section.offset..section.offset + section.size);
        self.bytes[range].as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes))
    }

    /// Memory of the module, by address.
    pub fn read<const N: usize>(&self, address: u64) -> Option<&[u8; N]> {
        self.from(address)?.first_chunk()
    }

    /// Text of the module that ends with a NUL, by address.
    pub fn text(&self, address: u64) -> Option<&str> {
        CStr::from_bytes_until_nul(self.from(address)?).ok()?.to_str().ok()
    }

    /// Whether an address is that of code of the module.
    pub fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let start = self.base + segment.offset as u64;
            segment.protection == Protection::Execute
                && (start..start + segment.size as u64).contains(&address)
        })
    }

    fn from(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.bytes.get(offset..)
    }
}
