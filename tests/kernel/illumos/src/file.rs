//! A module's file, read as krtld does (`kobj_load_module` of `usr/src/uts/common/krtld/kobj.c`): first the
//! checks, in their order; then [`File::link`], which resolves symbols and relocates.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use object_core::LittleEndian as LE;
use object_core::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object_core::read::ReadRef;

use super::PREFIX;
use super::marking::Marking;
use super::refusal::Refusal;
use super::relocate::{self, Relocation, Wrong};
use stand_in_base::image::{Image, MAX_SIZE, PAGE, Protection, Segment};

/// x86-64's `call rel32`.
const CALL: u8 = 0xe8;

/// Symbol of the bounds of a module's twins.
const TWINS: &str = "__sdt_is_enabled";

/// What krtld would take for a probe's site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The symbol's name behind the prefix.
    pub name: String,
    /// Address of the byte that `sdt` stores to.
    pub address: u64,
}

/// A symbol, its value an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its address; 0 as long as it is not defined.
    pub value: u64,
    /// Bytes it is of.
    pub size: u64,
    /// Its binding.
    pub binding: elf::SymbolBind,
    /// What it is of.
    pub kind: elf::SymbolType,
    /// Where it is defined.
    pub section: elf::SymbolSection,
}

/// A file that has passed krtld's first checks, with a place for everything in it.
#[derive(Debug)]
pub struct File<'a> {
    data: &'a [u8],
    headers: &'a [SectionHeader64<LE>],
    /// Where each section goes, from the image's start; `None` for those that are not loaded.
    places: Vec<Option<Place>>,
    /// Number of the symbol table's section.
    table: usize,
    symbols: &'a [Sym64<LE>],
    strings: &'a [u8],
    /// Names of the modules it depends on; `None` if the dynamic section has none.
    needed: Option<Vec<String>>,
    segments: Vec<Segment>,
    /// Where common symbols go.
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

/// A module that is ready to be mapped.
#[derive(Clone, Debug)]
pub struct Linked {
    /// Its memory.
    pub image: Image,
    /// All its symbols.
    pub symbols: Vec<Symbol>,
    /// The sites of its probes, in krtld's order: the last one first.
    pub sites: Vec<Call>,
    /// Addresses of its text and of its data.
    pub text: Range<u64>,
    /// Addresses of its data.
    pub data: Range<u64>,
}

impl Symbol {
    /// Whether other modules may use it: `get_syms` compares it with theirs.
    pub fn is_exported(&self) -> bool {
        let defined = self.section != elf::SHN_UNDEF && self.section.0 < elf::SHN_LORESERVE;
        self.binding == elf::STB_GLOBAL && defined
    }
}

impl<'a> File<'a> {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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

    /// Bytes that the image takes, a multiple of [`PAGE`].
    pub fn size(&self) -> usize {
        self.size
    }

    /// Gives every section that is loaded its place (`get_progbits`): what is not writable in the text
    /// segment, the rest in the data segment, in the order of the file.
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
        // Of several the last one counts.
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

    /// Room for common symbols, behind the data.
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

    /// The modules that it depends on: those of the dynamic section, or else of the string `_depends_on`.
    /// `Err` is a line for the console.
    ///
    /// # Errors
    /// The string is not one; it is passed over.
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

    /// The image for the address `base`, with probes' calls marked, and symbols that the file does not define
    /// coming from `lookup`: `do_common`, then `do_relocations`.
    ///
    /// # Errors
    /// A symbol is undefined, or a relocation cannot be done.
    pub fn link(
        &self,
        base: u64,
        marking: Marking,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Linked, Refusal> {
        let mut bytes = alloc::vec![0; self.size];
        for (header, place) in self.headers.iter().zip(&self.places) {
            let Some(place) = place else { continue };
            let contents = self.contents(header)?;
            bytes[place.offset..place.offset + contents.len()].copy_from_slice(contents);
        }
        let symbols = self.resolve(base, lookup)?;
        let mut sites = Vec::new();
        for (index, header) in self.headers.iter().enumerate() {
            match header.sh_type.get(LE) {
                elf::SHT_REL => return Err(Refusal::Rel),
                elf::SHT_RELA => {}
                _ => continue,
            }
            if header.sh_addr.get(LE) != 0 {
                // krtld takes it for where it has read them to.
                return Err(Refusal::Unsound {
                    place: alloc::format!("section {index}"),
                    reason: "relocations that say where in memory they are".into(),
                });
            }
            if header.sh_link.get(LE) as usize != self.table {
                return Err(Refusal::OtherTable);
            }
            let target = header.sh_info.get(LE) as usize;
            let place = self.places.get(target).ok_or(Refusal::Target(index))?;
            if let Some(place) = place {
                let (places, symbols) = (&*self.places, &*symbols);
                let relocating = Relocating { base, target, place, places, symbols, marking };
                relocating.section(self.contents(header)?, &mut bytes, &mut sites)?;
            }
        }
        // Each is put in front of the ones before.
        sites.reverse();
        let of = |segment: &Segment| {
            let start = base + segment.offset as u64;
            start..start + segment.size as u64
        };
        let (text, data) = (of(&self.segments[0]), of(&self.segments[1]));
        let image = Image::new(base, bytes, self.segments.clone());
        let linked = Linked { image, symbols, sites, text, data };
        linked.check_functions()?;
        linked.check_twins()?;
        Ok(linked)
    }

    /// All symbols with their addresses (`do_symbols`).
    fn resolve(
        &self,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Vec<Symbol>, Refusal> {
        let (mut undefined, mut thread_local) = (Vec::new(), Vec::new());
        let mut common = base + self.common as u64;
        let mut symbols = Vec::with_capacity(self.symbols.len());
        for entry in self.symbols {
            let mut symbol = Symbol {
                name: string(self.strings, entry.st_name.get(LE).into())?,
                value: entry.st_value.get(LE),
                size: entry.st_size.get(LE),
                binding: entry.st_bind(),
                kind: entry.st_type(),
                section: entry.st_shndx.get(LE),
            };
            let local = symbol.binding == elf::STB_LOCAL;
            match symbol.section {
                elf::SHN_UNDEF | elf::SHN_COMMON if symbol.kind == elf::STT_TLS => {
                    thread_local.push(symbol.name.clone());
                }
                elf::SHN_UNDEF | elf::SHN_COMMON => {
                    let found = if local { None } else { lookup(&symbol.name) };
                    if let Some(address) = found {
                        (symbol.section, symbol.value) = (elf::SHN_ABS, address);
                    } else if symbol.section == elf::SHN_COMMON {
                        common = common.next_multiple_of(symbol.value.max(1));
                        (symbol.section, symbol.value) = (elf::SHN_ABS, common);
                        common += symbol.size;
                    } else if !symbols.is_empty()
                        && !symbol.name.starts_with(PREFIX)
                        && !relocate::is_hot_inline(&symbol.name)
                        && symbol.binding != elf::STB_WEAK
                    {
                        undefined.push(symbol.name.clone());
                    }
                }
                section if section.0 < elf::SHN_LORESERVE => {
                    // The null symbol's section has not been looked at.
                    if let Some(&Some(place)) = self.places.get(usize::from(section.0)) {
                        symbol.value = symbol.value.wrapping_add(base + place.offset as u64);
                    }
                }
                _ => {}
            }
            symbols.push(symbol);
        }
        if undefined.is_empty() && thread_local.is_empty() {
            return Ok(symbols);
        }
        Err(Refusal::Undefined { undefined, thread_local, missing: None })
    }
}

/// Relocating one section.
struct Relocating<'a> {
    base: u64,
    /// Its number.
    target: usize,
    place: &'a Place,
    places: &'a [Option<Place>],
    symbols: &'a [Symbol],
    marking: Marking,
}

impl Relocating<'_> {
    /// `do_relocate`.
    fn section(
        &self,
        table: &[u8],
        bytes: &mut [u8],
        sites: &mut Vec<Call>,
    ) -> Result<(), Refusal> {
        let entries: &[Rela64<LE>] = object_core::pod::slice_from_all_bytes(table)
            .map_err(|()| Refusal::Truncated("a relocation table"))?;
        let memory = &mut bytes[self.place.offset..self.place.offset + self.place.size];
        for (number, entry) in entries.iter().enumerate() {
            let symbol = self.symbols.get(entry.r_sym(LE, false) as usize);
            let symbol = symbol.ok_or(Refusal::SymbolNumber(number))?;
            let (kind, offset) = (entry.r_type(LE, false).0, entry.r_offset.get(LE));
            relocate::check(kind).map_err(|()| Refusal::Type { kind, offset })?;
            if kind == elf::R_X86_64_NONE.0 {
                continue;
            }
            let unsound = |reason: &str| Refusal::Unsound {
                place: alloc::format!("section {}+{offset:#x}", self.target),
                reason: reason.to_string(),
            };
            let at = usize::try_from(offset).ok().filter(|&at| at < memory.len());
            let at = at.ok_or_else(|| unsound("a relocation outside of its section"))?;
            let address = self.base + (self.place.offset + at) as u64;
            let undefined = symbol.section == elf::SHN_UNDEF && symbol.binding != elf::STB_LOCAL;
            let probe = symbol.name.strip_prefix(PREFIX);
            if let (true, Some(name)) = (undefined, probe) {
                let mark = self.marking.disabled();
                self.mark(memory, at, mark).map_err(|reason| unsound(&reason))?;
                let address = address - 1 + self.marking.patchpoint() as u64;
                sites.push(Call { name: name.to_string(), address });
                continue;
            }
            if undefined && relocate::is_hot_inline(&symbol.name) {
                let nops = Marking::Nops.disabled();
                self.mark(memory, at, nops).map_err(|reason| unsound(&reason))?;
                continue;
            }
            if undefined {
                // Weak, or it would have been refused.
                continue;
            }
            self.check_target(kind, symbol, entry.r_addend.get(LE)).map_err(unsound)?;
            let call = at.checked_sub(1).map(|before| memory[before]) == Some(CALL);
            if self.place.code && call && matches!(kind, 2 | 4) {
                self.check_call(symbol, entry.r_addend.get(LE)).map_err(unsound)?;
            }
            let relocation = Relocation {
                kind,
                place: address,
                symbol: symbol.value,
                addend: entry.r_addend.get(LE),
                base: self.base + self.place.offset as u64,
            };
            relocate::apply(&relocation, &mut memory[at..]).map_err(|wrong| match wrong {
                Wrong::NotSupported => Refusal::NotSupported { kind, symbol: symbol.name.clone() },
                Wrong::Fit(value) => Refusal::Fit { kind, symbol: symbol.name.clone(), value },
                Wrong::Unsound(reason) => unsound(reason),
            })?;
        }
        Ok(())
    }

    /// What has a place has an address in its own section, or behind its end.
    fn check_target(&self, kind: u32, symbol: &Symbol, addend: i64) -> Result<(), &'static str> {
        let place = self.places.get(usize::from(symbol.section.0)).copied().flatten();
        let Some(place) = place.filter(|_| kind == elf::R_X86_64_64.0) else { return Ok(()) };
        let start = self.base + place.offset as u64;
        let inside = symbol.value.wrapping_add_signed(addend).wrapping_sub(start);
        if inside <= place.size as u64 {
            Ok(())
        } else {
            Err("a pointer to outside of its section")
        }
    }

    /// Calls are made, sooner or later.
    fn check_call(&self, symbol: &Symbol, addend: i64) -> Result<(), &'static str> {
        let to = symbol.value.wrapping_add_signed(addend).wrapping_add(4);
        let starts = |of: &Symbol| {
            let label = of.kind == elf::STT_NOTYPE && !of.name.is_empty();
            of.value == to && (of.kind == elf::STT_FUNC || label)
        };
        let known = self.symbols.iter().any(|of| of.kind == elf::STT_FUNC);
        if to == symbol.value && symbol.kind != elf::STT_SECTION
            || !known
            || self.symbols.iter().any(starts)
        {
            return Ok(());
        }
        Err("a call that leads to where no function starts")
    }

    /// `sdt_reloc_resolve`: five bytes, from the byte in front of the field on, whatever is there. What is
    /// there has to be a call.
    fn mark(&self, memory: &mut [u8], field: usize, mark: [u8; 5]) -> Result<(), String> {
        let start = field.checked_sub(1).ok_or("a probe's field without an instruction")?;
        let site = memory.get_mut(start..start + 5).ok_or("a probe's field without an end")?;
        if !self.place.code {
            return Err("a probe's address in data, which becomes a site there".into());
        }
        if site[0] != 0xe8 {
            return Err(alloc::format!("a probe's site is no call but {:02x}", site[0]));
        }
        site.copy_from_slice(&mark);
        Ok(())
    }
}

impl Linked {
    /// fbt reads all functions, where their symbols say (`fbt_provide_module`).
    fn check_functions(&self) -> Result<(), Refusal> {
        let functions = self.symbols.iter().skip(1).filter(|of| of.kind == elf::STT_FUNC);
        for symbol in
            functions.filter(|of| of.section != elf::SHN_UNDEF && of.section != elf::SHN_ABS)
        {
            let end = symbol.value.checked_add(symbol.size.max(1)).map(|end| end - 1);
            if !self.holds(symbol.value) || !end.is_some_and(|end| self.holds(end)) {
                return Err(Refusal::Unsound {
                    place: symbol.name.clone(),
                    reason: "a function outside of the module, which fbt would read".into(),
                });
            }
        }
        Ok(())
    }

    /// What `_init` of a module with twins does: it goes from the one bound to the other and reads where the words
    /// between them point (`sdt_core::illumos::native`).
    fn check_twins(&self) -> Result<(), Refusal> {
        let Some(bounds) = self.lookup(TWINS) else { return Ok(()) };
        let unsound =
            |reason: &str| Refusal::Unsound { place: TWINS.into(), reason: reason.into() };
        let word = |at: u64| self.image.read::<8>(at).map(|&word| u64::from_le_bytes(word));
        let bound = |at: u64| word(at).ok_or_else(|| unsound("bounds that are not there"));
        let (start, stop) = (bound(bounds)?, bound(bounds.wrapping_add(8))?);
        if start > stop || !start.is_multiple_of(8) {
            return Err(unsound("bounds of no set"));
        }
        for at in (start..stop).step_by(8) {
            let twin = word(at).ok_or_else(|| unsound("a set that is not all there"))?;
            if self.image.read::<4>(twin).is_none() {
                return Err(unsound("a twin that is not there"));
            }
        }
        Ok(())
    }

    /// The address of a symbol that the module defines (`lookup_one`).
    pub fn lookup(&self, name: &str) -> Option<u64> {
        let defined = |symbol: &&Symbol| symbol.section != elf::SHN_UNDEF && symbol.name == name;
        self.symbols.iter().skip(1).find(defined).map(|symbol| symbol.value)
    }

    /// The same, for other modules: local symbols are none of theirs.
    pub fn exported(&self, name: &str) -> Option<u64> {
        let symbols = self.symbols.iter().skip(1);
        let mut exported = symbols
            .filter(|symbol| symbol.binding != elf::STB_LOCAL && symbol.section != elf::SHN_UNDEF);
        exported.find(|symbol| symbol.name == name).map(|symbol| symbol.value)
    }

    /// Whether an address is in the module (`kobj_addrcheck`).
    pub fn holds(&self, address: u64) -> bool {
        self.text.contains(&address) || self.data.contains(&address)
    }

    /// The symbol that an address belongs to (`kobj_searchsym`): the largest function around it, or else
    /// the nearest symbol in front of it, whatever that is.
    pub fn symbol_at(&self, address: u64) -> Option<&str> {
        self.around(address).map(|symbol| symbol.name.as_str())
    }

    pub(crate) fn around(&self, address: u64) -> Option<&Symbol> {
        if !self.holds(address) {
            return None;
        }
        let mut best: Option<&Symbol> = None;
        let mut distance = u64::MAX;
        for symbol in self.symbols.iter().skip(1) {
            let function = symbol.kind == elf::STT_FUNC;
            let named = function || symbol.kind == elf::STT_OBJECT;
            let considered =
                symbol.binding == elf::STB_GLOBAL || symbol.binding == elf::STB_LOCAL && named;
            let Some(offset) = address.checked_sub(symbol.value).filter(|_| considered) else {
                continue;
            };
            let best_function = best.filter(|best| best.kind == elf::STT_FUNC);
            if function || best_function.is_some() {
                let larger = best_function.is_none_or(|best| function && symbol.size > best.size);
                if offset >= symbol.size || !larger {
                    continue;
                }
            } else if offset >= distance {
                continue;
            }
            distance = offset;
            best = Some(symbol);
        }
        best
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
