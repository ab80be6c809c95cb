//! Reads a module's file as krtld does (`kobj_load_module` of `usr/src/uts/common/krtld/kobj.c`): [`File::parse`] does krtld's
//! checks, in the same order; then [`File::link`] resolves symbols and relocates the sections.

mod link;
mod linked;
mod relocating;

use alloc::string::String;
use alloc::vec::Vec;

use object_core::LittleEndian as LE;
use object_core::elf::{self, FileHeader64, SectionHeader64, Sym64};
use object_core::read::ReadRef;

pub use linked::{Call, Linked, Symbol};

use super::refusal::Refusal;
use stand_in_base::image::{MAX_SIZE, PAGE, Protection, Segment};

/// A file that has passed krtld's first checks, and the layout of its sections in the image.
#[derive(Debug)]
pub struct File<'a> {
    data: &'a [u8],
    headers: &'a [SectionHeader64<LE>],
    /// Place of each section in the image; `None` for those that are not loaded.
    places: Vec<Option<Place>>,
    /// Number of the symbol table's section.
    table: usize,
    symbols: &'a [Sym64<LE>],
    strings: &'a [u8],
    /// The names of the modules that the file depends on; `None` if the dynamic section names none.
    needed: Option<Vec<String>>,
    segments: Vec<Segment>,
    /// Offset of the common symbols.
    common: usize,
    size: usize,
}

/// A section's place.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: usize,
    size: usize,
    code: bool,
}

impl<'a> File<'a> {
    /// Reads a file.
    ///
    /// # Errors
    /// The first defect of the file.
    pub fn parse(data: &'a [u8]) -> Result<Self, Refusal> {
        let header = data.read_at::<FileHeader64<LE>>(0).map_err(|()| Refusal::NotElf)?;
        let ident = &header.e_ident;
        if ident.magic != elf::ELFMAG {
            return Err(Refusal::NotElf);
        }
        if ident.class != elf::ELFCLASS64
            || ident.data != elf::ELFDATA2LSB
            || header.e_machine.get(LE) != elf::EM_X86_64
        {
            return Err(Refusal::OtherMachine);
        }
        if header.e_type.get(LE) != elf::ET_REL {
            return Err(Refusal::NotRelocatable);
        }
        let truncated = |()| Refusal::Truncated("the section header table");
        let (count, offset) = (header.e_shnum.get(LE).into(), header.e_shoff.get(LE));
        if usize::from(header.e_shentsize.get(LE)) != size_of::<SectionHeader64<LE>>() {
            return Err(truncated(()));
        }
        let headers =
            data.read_slice_at::<SectionHeader64<LE>>(offset, count).map_err(truncated)?;
        let mut file = Self {
            data,
            headers,
            places: Vec::new(),
            table: 0,
            symbols: &[],
            strings: &[],
            needed: None,
            segments: Vec::new(),
            common: 0,
            size: 0,
        };
        file.place()?;
        file.needed = file.dynamic()?;
        file.read_symbols()?;
        file.place_common()?;
        Ok(file)
    }

    /// Returns the size of the image in bytes, a multiple of [`PAGE`].
    pub fn size(&self) -> usize {
        self.size
    }

    /// Places every section that is loaded (`get_progbits`), in the order of the file: read-only sections in the text segment, the
    /// others in the data segment.
    fn place(&mut self) -> Result<(), Refusal> {
        self.places = alloc::vec![None; self.headers.len()];
        let mut end = 0;
        for (writable, protection) in [(false, Protection::Execute), (true, Protection::Write)] {
            let start = end;
            for (index, header) in self.headers.iter().enumerate() {
                let flags = header.sh_flags.get(LE);
                let of_segment = flags.contains(elf::SHF_WRITE) == writable;
                if !flags.contains(elf::SHF_ALLOC) || !of_segment {
                    continue;
                }
                if header.sh_addr.get(LE) != 0 {
                    return Err(Refusal::Address);
                }
                let code = flags.contains(elf::SHF_EXECINSTR);
                let (align, size) = (header.sh_addralign.get(LE).max(1), header.sh_size.get(LE));
                if writable && code || !align.is_power_of_two() || align > PAGE as u64 {
                    return Err(Refusal::Unsound {
                        place: alloc::format!("section {index}"),
                        reason: "writable code, or an odd alignment".into(),
                    });
                }
                let offset = (end as u64).next_multiple_of(align);
                if size > MAX_SIZE as u64 || offset + size > MAX_SIZE as u64 {
                    return Err(Refusal::OutOfMemory);
                }
                let size = size as usize;
                self.places[index] = Some(Place { offset: offset as usize, size, code });
                end = offset as usize + size;
            }
            let size = (end - start).next_multiple_of(PAGE);
            self.segments.push(Segment { offset: start, size, protection });
            end = start + size;
        }
        self.size = end;
        Ok(())
    }

    /// The dependencies in the dynamic section (`do_dynamic`).
    fn dynamic(&self) -> Result<Option<Vec<String>>, Refusal> {
        let of_kind = |(_, header): &(usize, &SectionHeader64<LE>)| {
            header.sh_type.get(LE) == elf::SHT_DYNAMIC
        };
        let mut all = self.headers.iter().enumerate().filter(of_kind);
        let Some((index, dynamic)) = all.next() else { return Ok(None) };
        if all.next().is_some() {
            return Err(Refusal::DynamicTwice);
        }
        let strings = self.headers.get(dynamic.sh_link.get(LE) as usize);
        let strings = strings.filter(|of| of.sh_type.get(LE) == elf::SHT_STRTAB);
        let strings = self.contents(strings.ok_or(Refusal::DynamicStrings(index))?)?;
        let mut names = Vec::new();
        for entry in self.contents(dynamic)?.as_chunks::<16>().0 {
            let (tag, value) = (word(entry, 0), word(entry, 8));
            match elf::DynamicTag(tag.cast_signed()) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => names.push(string(strings, value)?),
                _ => {}
            }
        }
        Ok((!names.is_empty()).then_some(names))
    }

    /// The symbol table (`get_syms`).
    fn read_symbols(&mut self) -> Result<(), Refusal> {
        // If there are several symbol tables, krtld uses the last one.
        let is_table = |header: &SectionHeader64<LE>| header.sh_type.get(LE) == elf::SHT_SYMTAB;
        self.table = self.headers.iter().rposition(is_table).ok_or(Refusal::NoSymbols)?;
        let header = &self.headers[self.table];
        let truncated = Refusal::Truncated("the symbol table");
        let strings = self.headers.get(header.sh_link.get(LE) as usize);
        self.strings = self.contents(strings.ok_or(truncated.clone())?)?;
        self.symbols = object_core::pod::slice_from_all_bytes(self.contents(header)?)
            .map_err(|()| truncated.clone())?;
        for (index, symbol) in self.symbols.iter().enumerate().skip(1) {
            let section = symbol.st_shndx.get(LE).0;
            if section < elf::SHN_LORESERVE && usize::from(section) >= self.headers.len() {
                return Err(Refusal::SectionNumber(index));
            }
            string(self.strings, symbol.st_name.get(LE).into())?;
        }
        Ok(())
    }

    /// Reserves memory for the common symbols after the data.
    fn place_common(&mut self) -> Result<(), Refusal> {
        let common = self.symbols.iter().filter(|of| of.st_shndx.get(LE) == elf::SHN_COMMON);
        let mut end = self.size as u64;
        self.common = self.size;
        for symbol in common {
            end = (end + symbol.st_size.get(LE)).next_multiple_of(symbol.st_value.get(LE).max(1));
            if end > MAX_SIZE as u64 {
                return Err(Refusal::OutOfMemory);
            }
        }
        let size = (end as usize).next_multiple_of(PAGE);
        if let Some(data) = self.segments.last_mut() {
            data.size += size - self.size;
        }
        self.size = size;
        Ok(())
    }

    fn contents(&self, header: &SectionHeader64<LE>) -> Result<&'a [u8], Refusal> {
        if header.sh_type.get(LE) == elf::SHT_NOBITS {
            return Ok(&[]);
        }
        let truncated = |()| Refusal::Truncated("a section");
        self.data.read_bytes_at(header.sh_offset.get(LE), header.sh_size.get(LE)).map_err(truncated)
    }

    /// Returns the names of the modules that the file depends on: from the dynamic section, or else from the string
    /// `_depends_on`.
    ///
    /// # Errors
    /// If `_depends_on` is not a NUL-terminated string. The error is a line for the console; krtld ignores the string.
    pub fn depends(&self, name: &str) -> Result<Vec<String>, String> {
        if let Some(needed) = &self.needed {
            return Ok(needed.clone());
        }
        let found = self.symbols.iter().find(|symbol| {
            symbol.st_shndx.get(LE) != elf::SHN_UNDEF
                && string(self.strings, symbol.st_name.get(LE).into()).as_deref()
                    == Ok("_depends_on")
        });
        let Some(symbol) = found else { return Ok(Vec::new()) };
        let bytes = self.headers.get(usize::from(symbol.st_shndx.get(LE).0)).and_then(|header| {
            let bytes = self.contents(header).ok()?;
            let start = usize::try_from(symbol.st_value.get(LE)).ok()?;
            let size = usize::try_from(symbol.st_size.get(LE)).ok()?;
            bytes.get(start..start.checked_add(size)?)
        });
        match bytes.and_then(<[u8]>::split_last) {
            Some((0, names)) => {
                let names = core::str::from_utf8(names).unwrap_or_default();
                Ok(names
                    .split([' ', '\t', '\0'])
                    .filter(|of| !of.is_empty())
                    .map(Into::into)
                    .collect())
            }
            _ => Err(alloc::format!("Error processing dependency for {name}")),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes))
}

fn string(strings: &[u8], offset: u64) -> Result<String, Refusal> {
    let rest = usize::try_from(offset).ok().and_then(|offset| strings.get(offset..));
    let text = rest.and_then(|rest| core::ffi::CStr::from_bytes_until_nul(rest).ok());
    let text = text.ok_or(Refusal::Truncated("a name"))?;
    Ok(String::from_utf8_lossy(text.to_bytes()).into_owned())
}
