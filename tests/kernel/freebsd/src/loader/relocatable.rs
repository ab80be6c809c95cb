//! ET_REL files: the layout of their sections in memory, and their relocation (`sys/kern/link_elf_obj.c`).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use object_core::LittleEndian as LE;
use object_core::elf;

use super::elf::{Object, has, is_loaded};
use super::error::LoadError;
use super::linked::{Function, Linked, SITES, Set, Symbol};
use super::machine::Machine;
use super::relocate::{Relocation, RelocationError};
use stand_in_base::image::{Image, MAX_SIZE, PAGE, Protection, Segment};

/// x86-64's `call rel32`.
const CALL: u8 = 0xe8;

/// A section with its offset in the image.
#[derive(Clone, Debug)]
struct Placed {
    /// The index of the section in the file.
    index: usize,
    name: String,
    kind: elf::SectionType,
    offset: usize,
    size: usize,
    protection: Protection,
}

/// An ET_REL file, with the offsets of its sections in the image.
#[derive(Debug)]
pub(super) struct Relocatable<'a> {
    object: Object<'a>,
    machine: Machine,
    sections: Vec<Placed>,
    segments: Vec<Segment>,
    size: usize,
    /// Whether `R_X86_64_PLT32` can be used.
    pub(super) knows_plt32: bool,
}

impl<'a> Relocatable<'a> {
    /// Checks a file and lays its sections out.
    ///
    /// Sections with the same protection are adjacent, and each group is on pages of its own. FreeBSD obtains the same
    /// layout with the linker script of its kernel modules (`ldscript.kmod.amd64`).
    pub(super) fn parse(data: &'a [u8], machine: Machine) -> Result<Self, LoadError> {
        let object = Object::parse(data, machine.number())?;
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
            // `offset` contains the alignment until the loop below computes the offset.
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

        let size = end.next_multiple_of(PAGE);
        Ok(Self { object, machine, sections, segments, size, knows_plt32: true })
    }

    /// Returns the size of the image in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Fills the sections and applies all relocations for the address `base`. `lookup` returns the address of a symbol that the
    /// file does not define.
    pub(super) fn link(
        &self,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Linked, LoadError> {
        let mut bytes = alloc::vec![0; self.size];
        for section in self.sections.iter().filter(|section| section.kind != elf::SHT_NOBITS) {
            let contents = self.object.contents(section.index)?;
            bytes[section.offset..section.offset + section.size].copy_from_slice(contents);
        }
        let starts = BTreeSet::new();
        let mut linking = Linking { file: self, base, bytes, lookup, starts };
        linking.find_starts();
        linking.relocate_all()?;
        let symbols = linking.symbols()?;
        let functions = linking.functions()?;
        let arrays = |kind| {
            let sections = self.sections.iter().filter(move |section| section.kind == kind);
            sections.map(|section| section.offset..section.offset + section.size).collect()
        };
        Ok(Linked {
            image: Image::new(base, linking.bytes, self.segments.clone()),
            symbols,
            functions,
            starts: linking.starts,
            sets: self.sets(),
            constructors: arrays(elf::SHT_INIT_ARRAY),
            destructors: arrays(elf::SHT_FINI_ARRAY),
        })
    }

    /// Returns the linker sets. If several sections have the same name, only the first is a set, as in `link_elf_lookup_set`.
    fn sets(&self) -> Vec<Set> {
        let mut sets: Vec<Set> = Vec::new();
        let mut sections: Vec<&Placed> = self.sections.iter().collect();
        sections.sort_by_key(|section| section.index);
        for section in sections {
            let sites = (section.name == SITES).then_some(SITES);
            let Some(name) = section.name.strip_prefix("set_").or(sites) else { continue };
            if sets.iter().all(|set| set.name != name) {
                let range = section.offset..section.offset + section.size;
                sets.push(Set { name: name.into(), range });
            }
        }
        sets
    }
}

/// The state of linking a file for an address.
struct Linking<'a> {
    file: &'a Relocatable<'a>,
    base: u64,
    bytes: Vec<u8>,
    lookup: &'a dyn Fn(&str) -> Option<u64>,
    /// Starts of functions.
    starts: BTreeSet<u64>,
}

impl Linking<'_> {
    /// Finds the starts of functions, if the file has symbols of functions.
    fn find_starts(&mut self) {
        let object = &self.file.object;
        let is = |kind| move |symbol: &elf::Sym64<LE>| symbol.st_type() == kind;
        if !object.symbols.iter().any(is(elf::STT_FUNC)) {
            return;
        }
        let symbols = object.symbols.iter().enumerate().skip(1);
        let starts = symbols.filter(|(_, symbol)| {
            let label = is(elf::STT_NOTYPE)(symbol) && symbol.st_name.get(LE) != 0;
            is(elf::STT_FUNC)(symbol) || label
        });
        self.starts = starts.filter_map(|(index, _)| self.defined(index).ok()).collect();
    }

    /// Checks that the target of a `call` in the file is the start of a function, in this file or elsewhere.
    fn check_call(
        &self,
        target: &Placed,
        relocation: &Relocation,
        at: usize,
    ) -> Result<(), LoadError> {
        let relative = matches!(relocation.kind, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32);
        let opcode = at.checked_sub(1).map(|before| self.bytes[target.offset + before]);
        if !relative || target.protection != Protection::Execute || opcode != Some(CALL) {
            return Ok(());
        }
        let to = relocation.symbol.wrapping_add_signed(relocation.addend).wrapping_add(4);
        let own = to.checked_sub(self.base).is_some_and(|offset| offset < self.bytes.len() as u64);
        let is_function = if own {
            let code = self.file.segments.iter().filter(|of| of.protection == Protection::Execute);
            let mut code = code
                .map(|of| self.base + of.offset as u64..self.base + (of.offset + of.size) as u64);
            code.any(|code| code.contains(&to))
                && (self.starts.is_empty() || self.starts.contains(&to))
        } else {
            to == relocation.symbol
        };
        if is_function {
            return Ok(());
        }
        Err(LoadError::Call { place: format!("{}+{at:#x}", target.name), target: to })
    }

    fn relocate_all(&mut self) -> Result<(), LoadError> {
        let object = &self.file.object;
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
                        .file
                        .sections
                        .iter()
                        .find(|placed| placed.index == target)
                        .ok_or(LoadError::RelocationSection { section: index })?;
                    self.relocate(index, placed)?;
                }
                elf::SHT_REL if is_for_memory(target) => {
                    return Err(LoadError::RelocationSection { section: index });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn relocate(&mut self, index: usize, target: &Placed) -> Result<(), LoadError> {
        let machine = self.file.machine;
        for entry in self.file.object.relocations(index)? {
            let kind = entry.r_type(LE, false);
            let number = entry.r_sym(LE, false) as usize;
            let offset = entry.r_offset.get(LE);
            let refuse = |error| LoadError::Relocation {
                place: format!("{}+{offset:#x}", target.name),
                symbol: number,
                error,
            };
            machine.check(kind).map_err(refuse)?;
            if kind == elf::R_X86_64_PLT32 && !self.file.knows_plt32 {
                return Err(refuse(RelocationError::Unexpected(kind.0)));
            }
            let symbol = if machine.uses_symbol(kind) { self.symbol(number)? } else { 0 };
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
            self.check_call(target, &relocation, at)?;
            let rest = &mut self.bytes[target.offset + at..target.offset + target.size];
            machine.apply(&relocation, rest).map_err(refuse)?;
        }
        Ok(())
    }

    /// Returns the global symbols that the file defines.
    fn symbols(&self) -> Result<Vec<Symbol>, LoadError> {
        let object = &self.file.object;
        let mut symbols = Vec::new();
        for (index, symbol) in object.symbols.iter().enumerate().skip(1) {
            let defined = symbol.st_shndx.get(LE) != elf::SHN_UNDEF;
            if defined && symbol.st_bind() != elf::STB_LOCAL {
                let name = object.symbol_name(index)?;
                symbols.push(Symbol { name, address: self.defined(index)? });
            }
        }
        Ok(symbols)
    }

    /// Returns the functions that `link_elf_each_function_nameval` finds for fbt. Fails if one of them is outside of the module;
    /// that includes undefined symbols with a value, which FreeBSD does not exclude.
    fn functions(&self) -> Result<Vec<Function>, LoadError> {
        let object = &self.file.object;
        let mut functions = Vec::new();
        for (index, symbol) in object.symbols.iter().enumerate().skip(1) {
            let (value, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
            let defined = symbol.st_shndx.get(LE) != elf::SHN_UNDEF;
            if symbol.st_type() != elf::STT_FUNC || !defined && value == 0 {
                continue;
            }
            let name = object.symbol_name(index)?;
            let address = if defined { self.defined(index).ok() } else { None };
            let end = address.and_then(|address| address.checked_add(size));
            let inside = |end: u64| {
                end.checked_sub(self.base).is_some_and(|end| end <= self.bytes.len() as u64)
            };
            match address.filter(|_| end.is_some_and(inside)) {
                Some(address) => functions.push(Function { name, address, size }),
                None => return Err(LoadError::FunctionPlace { name }),
            }
        }
        Ok(functions)
    }

    /// Returns the address of a symbol (`elf_obj_lookup`). Searches the file, then the edges of its sections
    /// ([`section_edge`](Self::section_edge)), then the kernel and the other files.
    fn symbol(&self, index: usize) -> Result<u64, LoadError> {
        let object = &self.file.object;
        let symbol = object.symbols.get(index).ok_or(LoadError::SymbolIndex { index })?;
        if symbol.st_shndx.get(LE) != elf::SHN_UNDEF {
            return self.defined(index);
        }
        let name = object.symbol_name(index)?;
        // "Local, but undefined? huh?"
        if symbol.st_bind() == elf::STB_LOCAL || name.is_empty() {
            return Err(LoadError::Undefined { name });
        }
        match self.section_edge(&name).or_else(|| (self.lookup)(&name)) {
            Some(address) => Ok(address),
            None if symbol.st_bind() == elf::STB_WEAK => Ok(0),
            None => Err(LoadError::Undefined { name }),
        }
    }

    fn defined(&self, index: usize) -> Result<u64, LoadError> {
        let object = &self.file.object;
        let symbol = &object.symbols[index];
        let value = symbol.st_value.get(LE);
        if symbol.st_shndx.get(LE) == elf::SHN_ABS {
            return Ok(value);
        }
        let section = usize::from(symbol.st_shndx.get(LE).0);
        match self.file.sections.iter().find(|placed| placed.index == section) {
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
        let sections = self.file.sections.iter().filter(|section| section.name == name);
        sections.min_by_key(|section| section.index)
    }
}
