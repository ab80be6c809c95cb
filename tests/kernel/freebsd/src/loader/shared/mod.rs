//! ET_DYN files: loads their segments, and relocates them as their dynamic section requires (`sys/kern/link_elf.c`).

mod dynamic;
mod segments;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use object_core::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object_core::endian::{LittleEndian as LE, U32};
use object_core::pod::Pod;
use object_core::read::ReadRef;

use super::elf::{contents, name};
use super::error::LoadError;
use super::linked::{Function, Linked, SITES, Set, Symbol};
use super::machine::Machine;
use super::relocate::{Relocation, RelocationError};
use dynamic::Dynamic;
use segments::Segments;
use stand_in_base::image::{Image, Segment};

/// Prefixes of the symbols at the edges of a set; the name of the set's section follows.
const START: &str = "__start_";
const STOP: &str = "__stop_";

/// An ET_DYN file whose segments have been loaded into a buffer but not relocated.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    machine: Machine,
    /// The loaded memory, from the file's address 0 on.
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    /// Ranges of the segments' memory.
    loaded: Vec<Range<usize>>,
    dynamic: Dynamic,
    /// The table that debuggers use (`.symtab`), if it has not been stripped.
    debug: Option<SymbolTable<'a>>,
}

/// Symbols and their names.
#[derive(Clone, Copy, Debug)]
struct SymbolTable<'a> {
    symbols: &'a [Sym64<LE>],
    names: &'a [u8],
}

impl<'a> Shared<'a> {
    /// Checks a file and loads its segments, in the order of `link_elf_load_file`.
    pub(super) fn parse(data: &'a [u8], machine: Machine) -> Result<Self, LoadError> {
        let header = data.read_at::<FileHeader64<LE>>(0).map_err(|()| LoadError::NotElf)?;
        super::elf::check_ident(header)?;
        if header.e_type.get(LE) != elf::ET_DYN {
            let found = header.e_type.get(LE).0;
            return Err(LoadError::Type { found, expected: "ET_DYN" });
        }
        if header.e_machine.get(LE).0 != machine.number() {
            return Err(LoadError::Machine(header.e_machine.get(LE).0));
        }
        let Segments { bytes, segments, loaded, dynamic } = Segments::load(data, header)?;
        let dynamic = Dynamic::parse(&bytes, dynamic)?;
        let debug = debug_symbols(data, header)?;
        Ok(Self { machine, bytes, segments, loaded, dynamic, debug })
    }

    /// Returns the size of the image in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Applies all relocations for the address `base`. `lookup` returns the address of a symbol that the file does not define.
    pub(super) fn link(
        &self,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Linked, LoadError> {
        self.check_chains()?;
        let mut bytes = self.bytes.clone();
        for table in &self.dynamic.relocations {
            for entry in entries::<Rela64<LE>>(&self.bytes, table) {
                self.relocate(&mut bytes, entry, base, lookup)?;
            }
        }
        let mut symbols = Vec::new();
        for symbol in self.symbols() {
            if is_defined(symbol) && symbol.st_bind() != elf::STB_LOCAL {
                let name = self.symbol_name(symbol)?;
                symbols.push(Symbol { address: self.address(symbol, &name, base)?, name });
            }
        }
        let functions = self.functions(base)?;
        let starts = if functions.is_empty() { BTreeSet::new() } else { self.starts(base) };
        Ok(Linked {
            image: Image::new(base, bytes, self.segments.clone()),
            symbols,
            functions,
            starts,
            sets: self.sets()?,
            constructors: self.dynamic.constructors.iter().cloned().collect(),
            destructors: self.dynamic.destructors.iter().cloned().collect(),
        })
    }

    fn relocate(
        &self,
        bytes: &mut [u8],
        entry: &Rela64<LE>,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<(), LoadError> {
        let kind = entry.r_type(LE, false);
        let number = entry.r_sym(LE, false) as usize;
        let offset = entry.r_offset.get(LE);
        let refuse =
            |error| LoadError::Relocation { place: format!("{offset:#x}"), symbol: number, error };
        self.machine.check(kind).map_err(refuse)?;
        let symbol =
            if self.machine.uses_symbol(kind) { self.symbol(number, base, lookup)? } else { 0 };
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| {
                let segment = self.loaded.iter().find(|segment| segment.contains(&at))?;
                bytes.get_mut(at..segment.end)
            })
            .ok_or_else(|| refuse(RelocationError::Place))?;
        let place = base.wrapping_add(offset);
        let addend = entry.r_addend.get(LE);
        let relocation = Relocation { kind, place, symbol, addend, base };
        self.machine.apply(&relocation, rest).map_err(refuse)
    }

    /// `elf_lookup`: a local symbol has its own value; any other symbol is looked up by name, first in the file, then
    /// in all files.
    fn symbol(
        &self,
        index: usize,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<u64, LoadError> {
        let symbol = self.symbols().get(index).ok_or(LoadError::SymbolIndex { index })?;
        let name = self.symbol_name(symbol)?;
        if symbol.st_bind() == elf::STB_LOCAL {
            // "Force lookup failure when we have an insanity."
            if !is_defined(symbol) || symbol.st_value.get(LE) == 0 {
                return Err(LoadError::Undefined { name });
            }
            return self.address(symbol, &name, base);
        }
        if name.is_empty() {
            return Err(LoadError::Undefined { name });
        }
        if let Some(own) = self.find(&name) {
            return self.address(own, &name, base);
        }
        match lookup(&name) {
            Some(address) => Ok(address),
            None if symbol.st_bind() == elf::STB_WEAK => Ok(0),
            None => Err(LoadError::Undefined { name }),
        }
    }

    /// Finds a global symbol that the file defines, in the hash table (`link_elf_lookup_symbol`).
    fn find(&self, name: &str) -> Option<&Sym64<LE>> {
        let mut index = *entries::<Word>(&self.bytes, &self.dynamic.buckets).get(
            (elf::hash(name.as_bytes()) as usize).checked_rem(self.dynamic.buckets.len() / 4)?,
        )?;
        let chains = entries::<Word>(&self.bytes, &self.dynamic.chains);
        // A chain with more links than symbols is a cycle, so the number of steps is limited.
        for _ in 0..chains.len() {
            let number = index.get(LE) as usize;
            let symbol = self.symbols().get(number).filter(|_| number != 0)?;
            let same = self.symbol_name(symbol).is_ok_and(|own| own == name);
            if same {
                return (is_defined(symbol) && symbol.st_bind() != elf::STB_LOCAL)
                    .then_some(symbol);
            }
            index = *chains.get(number)?;
        }
        None
    }

    /// A defined symbol's address.
    fn address(&self, symbol: &Sym64<LE>, name: &str, base: u64) -> Result<u64, LoadError> {
        let value = symbol.st_value.get(LE);
        if value > self.bytes.len() as u64 {
            return Err(LoadError::SymbolPlace { name: name.to_string() });
        }
        Ok(base + value)
    }

    /// Finds the linker sets (`link_elf_lookup_set`). A set is the range from its `__start_` symbol to its `__stop_` symbol. Both
    /// are searched in the dynamic symbol table first, and then in the one for debuggers.
    fn sets(&self) -> Result<Vec<Set>, LoadError> {
        let own = SymbolTable { symbols: self.symbols(), names: self.names() };
        let mut edges: BTreeMap<String, u64> = BTreeMap::new();
        for table in [Some(own), self.debug].into_iter().flatten() {
            for symbol in table.symbols.iter().filter(|symbol| is_defined(symbol)) {
                let Ok(name) = name(table.names, symbol.st_name.get(LE), 0) else { continue };
                // Unlike FreeBSD's sets, the set of sites has no `set_`.
                let edge = match name.strip_prefix(START).or(name.strip_prefix(STOP)) {
                    Some(set) => set.starts_with("set_") || set == SITES,
                    None => false,
                };
                if edge {
                    edges.entry(name).or_insert(symbol.st_value.get(LE));
                }
            }
        }
        let mut sets = Vec::new();
        for (name, &start) in &edges {
            let Some(set) = name.strip_prefix(START) else { continue };
            let Some(&stop) = edges.get(&format!("{STOP}{set}")) else { continue };
            let set = set.strip_prefix("set_").unwrap_or(set);
            let range = start as usize..stop as usize;
            if start > stop || stop > self.bytes.len() as u64 {
                if set == SITES {
                    continue;
                }
                return Err(LoadError::SymbolPlace { name: name.clone() });
            }
            sets.push(Set { name: set.to_string(), range });
        }
        Ok(sets)
    }

    /// Returns the functions in the symbol table for debuggers that `link_elf_each_function_nameval` finds for fbt, including
    /// undefined symbols with a value. Fails if a function is outside of the file's memory.
    fn functions(&self, base: u64) -> Result<Vec<Function>, LoadError> {
        let mut functions = Vec::new();
        let Some(SymbolTable { symbols, names }) = self.debug else { return Ok(functions) };
        for symbol in symbols {
            let (value, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
            if symbol.st_type() != elf::STT_FUNC || value == 0 {
                continue;
            }
            let name = name(names, symbol.st_name.get(LE), 0)?;
            let end = value.checked_add(size);
            if end.is_none_or(|end| end > self.bytes.len() as u64) {
                return Err(LoadError::FunctionPlace { name });
            }
            functions.push(Function { name, address: base + value, size });
        }
        Ok(functions)
    }

    /// Starts of functions, including functions in assembly that have only a name.
    fn starts(&self, base: u64) -> BTreeSet<u64> {
        let symbols = self.debug.into_iter().flat_map(|table| table.symbols);
        let starts = symbols.filter(|symbol| {
            is_defined(symbol) && matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_NOTYPE)
        });
        starts.map(|symbol| base.wrapping_add(symbol.st_value.get(LE))).collect()
    }

    /// Checks that every chain of the hash table ends. In a cyclic chain, FreeBSD's lookup of a missing symbol would never
    /// return.
    fn check_chains(&self) -> Result<(), LoadError> {
        let chains = entries::<Word>(&self.bytes, &self.dynamic.chains);
        for bucket in entries::<Word>(&self.bytes, &self.dynamic.buckets) {
            let (mut index, mut steps) = (bucket.get(LE) as usize, 0);
            while let Some(next) = chains.get(index).filter(|_| index != 0) {
                (index, steps) = (next.get(LE) as usize, steps + 1);
                if steps > chains.len() {
                    return Err(LoadError::EndlessChain);
                }
            }
        }
        Ok(())
    }

    fn symbols(&self) -> &[Sym64<LE>] {
        entries(&self.bytes, &self.dynamic.symbols)
    }

    fn names(&self) -> &[u8] {
        &self.bytes[self.dynamic.names.clone()]
    }

    fn symbol_name(&self, symbol: &Sym64<LE>) -> Result<String, LoadError> {
        name(self.names(), symbol.st_name.get(LE), 0)
    }
}

/// A word of the hash table.
type Word = U32<LE>;

/// Returns whether the file defines a symbol.
fn is_defined(symbol: &Sym64<LE>) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
}

/// Returns the complete entries of a table; ignores an incomplete entry at its end.
fn entries<'b, T: Pod>(bytes: &'b [u8], table: &Range<usize>) -> &'b [T] {
    let table = &bytes[table.clone()];
    let whole = table.len() - table.len() % size_of::<T>();
    object_core::pod::slice_from_all_bytes(&table[..whole]).unwrap_or_default()
}

/// Returns the symbol table for debuggers (`.symtab`); `None` if the file has been stripped.
fn debug_symbols<'a>(
    data: &'a [u8],
    header: &FileHeader64<LE>,
) -> Result<Option<SymbolTable<'a>>, LoadError> {
    let (count, offset) = (usize::from(header.e_shnum.get(LE)), header.e_shoff.get(LE));
    if count == 0 || offset == 0 {
        return Ok(None);
    }
    if usize::from(header.e_shentsize.get(LE)) != size_of::<SectionHeader64<LE>>() {
        return Err(LoadError::SectionTable);
    }
    let sections = data
        .read_slice_at::<SectionHeader64<LE>>(offset, count)
        .map_err(|()| LoadError::SectionTable)?;
    let is_symbols = |section: &SectionHeader64<LE>| section.sh_type.get(LE) == elf::SHT_SYMTAB;
    let Some(index) = sections.iter().position(is_symbols) else { return Ok(None) };
    let table = contents(data, &sections[index], index)?;
    let strings = sections[index].sh_link.get(LE) as usize;
    let names = sections
        .get(strings)
        .filter(|section| section.sh_type.get(LE) == elf::SHT_STRTAB)
        .ok_or(LoadError::SymbolStrings)?;
    let names = contents(data, names, strings)?;
    Ok(Some(SymbolTable { symbols: entries(table, &(0..table.len())), names }))
}
