//! Reads the dynamic section (`parse_dynamic`).

use core::ops::Range;

use object_core::LittleEndian as LE;
use object_core::elf::{self, Dyn64, Rela64, Sym64};

use super::super::error::LoadError;
use super::{Word, entries};

/// The tables that the loader uses. All ranges are inside the file's memory.
#[derive(Debug)]
pub(super) struct Dynamic {
    pub(super) symbols: Range<usize>,
    pub(super) names: Range<usize>,
    /// The buckets of the hash table: for each bucket, the index of its first symbol.
    pub(super) buckets: Range<usize>,
    /// The chains of the hash table: for each symbol, the index of the next symbol in its bucket.
    pub(super) chains: Range<usize>,
    /// DT_RELA and DT_JMPREL.
    pub(super) relocations: [Range<usize>; 2],
    pub(super) constructors: Option<Range<usize>>,
    pub(super) destructors: Option<Range<usize>>,
}

/// The addresses and sizes in the dynamic section, not yet checked.
#[derive(Default)]
struct Values {
    hash: Option<u64>,
    symbols: Option<u64>,
    names: Option<u64>,
    names_size: Option<u64>,
    rela: Option<u64>,
    rela_size: u64,
    jump: Option<u64>,
    jump_size: u64,
    init: Option<u64>,
    init_size: u64,
    fini: Option<u64>,
    fini_size: u64,
}

impl Dynamic {
    /// Reads the section at `section` of the file's memory.
    pub(super) fn parse(memory: &[u8], section: Range<usize>) -> Result<Self, LoadError> {
        let values = Values::read(entries(memory, &section))?;
        let table = |start: Option<u64>, size: u64, what| {
            let start = start.ok_or(LoadError::NoTable(what))?;
            range(memory, start, size).ok_or(LoadError::OutsideMemory(what))
        };
        let optional = |start: Option<u64>, size: u64, what| match start {
            None => Ok(None),
            Some(_) => table(start, size, what).map(Some),
        };
        let hash = values.hash.ok_or(LoadError::NoHashTable)?;
        let outside = LoadError::OutsideMemory("the symbol hash table");
        let counts = range(memory, hash, 8).ok_or(outside.clone())?;
        let [buckets, chains] = *entries::<Word>(memory, &counts) else { return Err(outside) };
        let (buckets, chains) = (u64::from(buckets.get(LE)), u64::from(chains.get(LE)));
        if buckets == 0 {
            return Err(LoadError::NoHashTable);
        }
        let first = hash + 8;
        let word = size_of::<Word>() as u64;
        let symbol = size_of::<Sym64<LE>>() as u64;
        Ok(Self {
            buckets: range(memory, first, buckets * word).ok_or(outside.clone())?,
            chains: range(memory, first + buckets * word, chains * word).ok_or(outside)?,
            // The number of symbols is the number of chains.
            symbols: table(values.symbols, chains * symbol, "symbol table")?,
            names: table(
                values.names,
                values.names_size.ok_or(LoadError::NoTable("size of the string table"))?,
                "string table",
            )?,
            relocations: [
                optional(values.rela, values.rela_size, "relocation table")?.unwrap_or(0..0),
                optional(values.jump, values.jump_size, "jump relocation table")?.unwrap_or(0..0),
            ],
            constructors: optional(values.init, values.init_size, "array of constructors")?,
            destructors: optional(values.fini, values.fini_size, "array of destructors")?,
        })
    }
}

impl Values {
    fn read(section: &[Dyn64<LE>]) -> Result<Self, LoadError> {
        let mut values = Self::default();
        let wrong_size = |size: u64, right: usize, what| {
            if size == right as u64 { Ok(()) } else { Err(LoadError::Dynamic(what)) }
        };
        for entry in section {
            let value = entry.d_val.get(LE);
            match entry.d_tag.get(LE) {
                elf::DT_NULL => break,
                elf::DT_HASH => values.hash = Some(value),
                elf::DT_SYMTAB => values.symbols = Some(value),
                elf::DT_SYMENT => {
                    wrong_size(value, size_of::<Sym64<LE>>(), "symbols of another size")?;
                }
                elf::DT_STRTAB => values.names = Some(value),
                elf::DT_STRSZ => values.names_size = Some(value),
                elf::DT_RELA => values.rela = Some(value),
                elf::DT_RELASZ => values.rela_size = value,
                elf::DT_RELAENT => {
                    wrong_size(value, size_of::<Rela64<LE>>(), "relocations of another size")?;
                }
                elf::DT_JMPREL => values.jump = Some(value),
                elf::DT_PLTRELSZ => values.jump_size = value,
                elf::DT_PLTREL if value != elf::DT_RELA.0 as u64 => {
                    return Err(LoadError::Dynamic("jump relocations without addends"));
                }
                elf::DT_REL => return Err(LoadError::Dynamic("relocations without addends")),
                elf::DT_RELR => return Err(LoadError::Dynamic("packed relocations")),
                elf::DT_INIT_ARRAY => values.init = Some(value),
                elf::DT_INIT_ARRAYSZ => values.init_size = value,
                elf::DT_FINI_ARRAY => values.fini = Some(value),
                elf::DT_FINI_ARRAYSZ => values.fini_size = value,
                _ => {}
            }
        }
        Ok(values)
    }
}

fn range(memory: &[u8], start: u64, size: u64) -> Option<Range<usize>> {
    let end = usize::try_from(start.checked_add(size)?).ok()?;
    (end <= memory.len()).then_some(start as usize..end)
}
