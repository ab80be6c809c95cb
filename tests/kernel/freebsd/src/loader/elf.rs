//! Reads the headers, tables and names of an ET_REL file, and checks every offset.

use alloc::string::{String, ToString};
use core::ops::Range;

use object_core::LittleEndian as LE;
use object_core::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object_core::read::ReadRef;

use super::error::LoadError;

/// SHT_X86_64_UNWIND, which FreeBSD loads like SHT_PROGBITS.
const UNWIND: u32 = 0x7000_0001;

/// An ET_REL file whose header and tables have been checked.
#[derive(Debug)]
pub(super) struct Object<'a> {
    data: &'a [u8],
    pub(super) sections: &'a [SectionHeader64<LE>],
    section_names: &'a [u8],
    pub(super) symbols: &'a [Sym64<LE>],
    symbol_names: &'a [u8],
}

/// Returns whether a section has a flag.
pub(super) fn has(section: &SectionHeader64<LE>, flag: elf::SectionFlags) -> bool {
    section.sh_flags.get(LE).contains(flag)
}

/// Returns whether a section is loaded into the memory of the kernel.
pub(super) fn is_loaded(section: &SectionHeader64<LE>) -> bool {
    section.sh_size.get(LE) != 0
        && has(section, elf::SHF_ALLOC)
        && (section.sh_type.get(LE).0 == UNWIND
            || matches!(
                section.sh_type.get(LE),
                elf::SHT_PROGBITS | elf::SHT_NOBITS | elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY
            ))
}

impl<'a> Object<'a> {
    /// Checks the header and finds the tables, in the order of `link_elf_load_file`.
    ///
    /// # Errors
    /// The first defect of the file.
    pub(super) fn parse(data: &'a [u8], machine: u16) -> Result<Self, LoadError> {
        let header = data.read_at::<FileHeader64<LE>>(0).map_err(|()| LoadError::NotElf)?;
        check_ident(header)?;
        if header.e_type.get(LE) != elf::ET_REL {
            return Err(LoadError::Type { found: header.e_type.get(LE).0, expected: "ET_REL" });
        }
        if header.e_machine.get(LE).0 != machine {
            return Err(LoadError::Machine(header.e_machine.get(LE).0));
        }
        let count = header.e_shnum.get(LE).into();
        let offset = header.e_shoff.get(LE);
        let entry_size = usize::from(header.e_shentsize.get(LE));
        if count == 0 || offset == 0 || entry_size != size_of::<SectionHeader64<LE>>() {
            return Err(LoadError::SectionTable);
        }
        let sections = data
            .read_slice_at::<SectionHeader64<LE>>(offset, count)
            .map_err(|()| LoadError::SectionTable)?;

        if !sections.iter().any(is_loaded) {
            return Err(LoadError::NoContents);
        }
        let mut tables = sections.iter().enumerate().filter(|(_, section)| {
            section.sh_size.get(LE) != 0 && section.sh_type.get(LE) == elf::SHT_SYMTAB
        });
        let (Some((index, table)), 0) = (tables.next(), tables.count()) else {
            let all = sections.iter().filter(|s| s.sh_type.get(LE) == elf::SHT_SYMTAB);
            return Err(LoadError::SymbolTables(all.count()));
        };
        let symbols = entries(data, table, index)?;
        let strings = table.sh_link.get(LE) as usize;
        let symbol_names = sections
            .get(strings)
            .filter(|section| section.sh_type.get(LE) == elf::SHT_STRTAB)
            .ok_or(LoadError::SymbolStrings)?;
        let symbol_names = contents(data, symbol_names, strings)?;
        let names = usize::from(header.e_shstrndx.get(LE).0);
        let section_names = match sections.get(names) {
            Some(table) if names != 0 && table.sh_type.get(LE) == elf::SHT_STRTAB => {
                contents(data, table, names)?
            }
            _ => &[],
        };
        Ok(Self { data, sections, section_names, symbols, symbol_names })
    }

    /// Returns the content of a section in the file.
    pub(super) fn contents(&self, index: usize) -> Result<&'a [u8], LoadError> {
        contents(self.data, &self.sections[index], index)
    }

    /// Returns the relocations in the SHT_RELA section `index`.
    pub(super) fn relocations(&self, index: usize) -> Result<&'a [Rela64<LE>], LoadError> {
        entries(self.data, &self.sections[index], index)
    }

    /// Returns the name of a section; `<<PROGBITS>>`, as in FreeBSD, if the section has no name.
    pub(super) fn section_name(&self, index: usize) -> Result<String, LoadError> {
        let offset = self.sections[index].sh_name.get(LE);
        if self.section_names.is_empty() || offset == 0 {
            return Ok("<<PROGBITS>>".to_string());
        }
        name(self.section_names, offset, index)
    }

    /// Returns the name of a symbol.
    pub(super) fn symbol_name(&self, index: usize) -> Result<String, LoadError> {
        name(self.symbol_names, self.symbols[index].st_name.get(LE), index)
    }
}

/// Checks that a file is a 64-bit little-endian ELF file of the current version.
pub(super) fn check_ident(header: &FileHeader64<LE>) -> Result<(), LoadError> {
    let ident = &header.e_ident;
    if ident.magic != elf::ELFMAG {
        return Err(LoadError::NotElf);
    }
    if ident.class != elf::ELFCLASS64 || ident.data != elf::ELFDATA2LSB {
        return Err(LoadError::Layout);
    }
    if ident.version != elf::EV_CURRENT || header.e_version.get(LE) != 1 {
        return Err(LoadError::Version);
    }
    Ok(())
}

/// Returns the content of a section in a file.
pub(super) fn contents<'a>(
    data: &'a [u8],
    section: &SectionHeader64<LE>,
    index: usize,
) -> Result<&'a [u8], LoadError> {
    let range = file_range(section).ok_or(LoadError::Truncated { section: index })?;
    data.get(range).ok_or(LoadError::Truncated { section: index })
}

fn file_range(section: &SectionHeader64<LE>) -> Option<Range<usize>> {
    let start = usize::try_from(section.sh_offset.get(LE)).ok()?;
    Some(start..start.checked_add(usize::try_from(section.sh_size.get(LE)).ok()?)?)
}

fn entries<'a, T: object_core::pod::Pod>(
    data: &'a [u8],
    section: &SectionHeader64<LE>,
    index: usize,
) -> Result<&'a [T], LoadError> {
    let bytes = contents(data, section, index)?;
    if !bytes.len().is_multiple_of(size_of::<T>()) {
        return Err(LoadError::TableSize { section: index });
    }
    object_core::pod::slice_from_all_bytes(bytes)
        .map_err(|()| LoadError::TableSize { section: index })
}

/// Returns the name at `offset` of a string table. Bytes that are not UTF-8 are replaced.
pub(super) fn name(strings: &[u8], offset: u32, index: usize) -> Result<String, LoadError> {
    let rest = strings.get(offset as usize..).ok_or(LoadError::Name { index })?;
    let text =
        core::ffi::CStr::from_bytes_until_nul(rest).map_err(|_| LoadError::Name { index })?;
    Ok(text.to_string_lossy().into_owned())
}
