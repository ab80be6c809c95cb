//! One relocatable object, compiled from C or Rust: its sections, and the targets of their relocations.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use object::elf;
use object::read::elf::{ElfFile64, ElfSection64, FileHeader as _};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
    SectionFlags, SectionIndex, SymbolKind,
};

use cargo_sdt::internal::arch::Arch;

/// An object.
#[derive(Debug)]
pub struct Unit {
    /// Its architecture.
    pub arch: Arch,
    sections: BTreeMap<usize, Section>,
    functions: Vec<Function>,
}

/// A section of an object.
#[derive(Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its bytes; none of `.bss`.
    pub bytes: Vec<u8>,
    /// Its alignment.
    pub align: u64,
    /// Whether it is loaded, to writable memory.
    pub writable: bool,
    relocations: BTreeMap<u64, Relocation>,
}

/// A relocation.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// Its kind, a number of the architecture's.
    pub kind: elf::RelocationType,
    /// Its target.
    pub target: Target,
}

/// The target of a relocation.
#[derive(Clone, Debug)]
pub enum Target {
    /// A place in the object.
    Place(Place),
    /// A symbol of another object.
    Symbol(String),
}

/// A place in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    section: usize,
    /// Its offset in the section.
    pub offset: u64,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Its start.
    pub start: Place,
    /// Its length in bytes.
    pub len: u64,
}

impl Function {
    /// Returns whether a place is in it.
    pub fn contains(&self, place: Place) -> bool {
        let offset = place.offset.checked_sub(self.start.offset);
        place.section == self.start.section && offset.is_some_and(|offset| offset < self.len)
    }
}

impl Place {
    /// Returns the position this number of bytes further.
    pub fn after(self, bytes: u64) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }

    /// Returns the position this number of bytes further or back.
    pub fn moved(self, bytes: i64) -> Self {
        Self { offset: self.offset.wrapping_add_signed(bytes), ..self }
    }
}

impl Unit {
    /// Reads an object.
    ///
    /// # Errors
    /// The file is not an object, or is for another machine.
    pub fn parse(data: &[u8]) -> anyhow::Result<Self> {
        let file: ElfFile64<'_> = ElfFile64::parse(data)?;
        let machine = file.elf_header().e_machine(file.endian());
        let arch = Arch::of_machine(machine).context("an object for another machine")?;
        let mut sections = BTreeMap::new();
        for section in file.sections() {
            sections.insert(section.index().0, Section::read(&file, &section)?);
        }
        let mut functions = Vec::new();
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let Some(SectionIndex(section)) = symbol.section_index() else { continue };
            if symbol.size() > 0 {
                functions.push(Function {
                    name: symbol.name()?.to_owned(),
                    start: Place { section, offset: symbol.address() },
                    len: symbol.size(),
                });
            }
        }
        Ok(Self { arch, sections, functions })
    }

    /// The one section of this name.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn section(&self, name: &str) -> anyhow::Result<(&Section, Place)> {
        let mut found = self.sections.iter().filter(|(_, section)| section.name == name);
        let (&index, section) = found.next().with_context(|| format!("no section {name}"))?;
        if found.next().is_some() {
            bail!("more than one section {name}");
        }
        Ok((section, Place { section: index, offset: 0 }))
    }

    /// All sections of this name, in which a set may be in pieces.
    pub fn pieces(&self, name: &str) -> impl Iterator<Item = (&Section, Place)> {
        self.sections
            .iter()
            .filter(move |(_, section)| section.name == name)
            .map(|(&index, section)| (section, Place { section: index, offset: 0 }))
    }

    /// The section of a place.
    pub fn section_of(&self, place: Place) -> &Section {
        &self.sections[&place.section]
    }

    /// Returns this number of bytes from a position, if they are in the section.
    pub fn bytes(&self, place: Place, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(place.offset).ok()?;
        self.section_of(place).bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }

    /// The relocation at a place.
    pub fn relocation(&self, place: Place) -> Option<&Relocation> {
        self.section_of(place).relocations.get(&place.offset)
    }

    /// The relocations of `len` bytes from a place on, by their offset from it.
    pub fn relocations(&self, place: Place, len: u64) -> impl Iterator<Item = (u64, &Relocation)> {
        let range = place.offset..place.offset + len;
        let found = self.section_of(place).relocations.range(range);
        found.map(move |(at, relocation)| (at - place.offset, relocation))
    }

    /// Returns the target of the address at a position, if it is in this object.
    pub fn address(&self, place: Place) -> Option<Place> {
        match self.relocation(place)?.target {
            Target::Place(target) => Some(target),
            Target::Symbol(_) => None,
        }
    }

    /// The NUL-terminated string at a place.
    pub fn string(&self, place: Place) -> Option<String> {
        let bytes = self.section_of(place).bytes.get(usize::try_from(place.offset).ok()?..)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    }

    /// All functions.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn function(&self, name: &str) -> anyhow::Result<&Function> {
        let found = self.functions.iter().find(|function| function.name == name);
        found.with_context(|| format!("no function {name}"))
    }

    /// The function that a place is in.
    pub fn function_at(&self, place: Place) -> Option<&Function> {
        self.functions.iter().find(|function| function.contains(place))
    }
}

impl Section {
    fn read(file: &ElfFile64<'_>, section: &ElfSection64<'_, '_>) -> anyhow::Result<Self> {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { bail!("no ELF section") };
        let mut relocations = BTreeMap::new();
        for (offset, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type: kind } = relocation.flags() else { continue };
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = file.symbol_by_index(index)?;
                    let offset = symbol.address().wrapping_add_signed(relocation.addend());
                    match symbol.section_index() {
                        Some(SectionIndex(section)) => Target::Place(Place { section, offset }),
                        None => Target::Symbol(symbol.name()?.to_owned()),
                    }
                }
                _ => continue,
            };
            relocations.insert(offset, Relocation { kind, target });
        }
        Ok(Self {
            name: section.name()?.to_owned(),
            bytes: section.data()?.to_vec(),
            align: section.align(),
            writable: sh_flags.contains(elf::SHF_ALLOC | elf::SHF_WRITE),
            relocations,
        })
    }
}
