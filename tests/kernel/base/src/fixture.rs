//! Builders of small ELF files for the tests of the FreeBSD and the illumos crate: ET_REL here, ET_DYN in [`shared`].

pub mod machine;
pub mod shared;

use object_core::elf::{self, RelocationType};
use object_core::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object_core::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope,
};

/// Builds an ET_REL file for x86_64.
#[derive(Debug)]
pub struct Builder {
    object: Object<'static>,
    text: SectionId,
    data: SectionId,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Creates a file with 64 bytes of code and 64 bytes of data.
    pub fn new() -> Self {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = object.add_section(vec![], b".text".to_vec(), SectionKind::Text);
        object.append_section_data(text, &[0x90; 64], 16);
        let data = object.add_section(vec![], b".data".to_vec(), SectionKind::Data);
        object.append_section_data(data, &[0; 64], 8);
        Self { object, text, data }
    }

    /// Returns the section of the code.
    pub fn text(&self) -> SectionId {
        self.text
    }

    /// Returns the section of the data.
    pub fn data(&self) -> SectionId {
        self.data
    }

    /// Adds a section with the given ELF type and flags.
    pub fn section(
        &mut self,
        name: &str,
        kind: elf::SectionType,
        flags: elf::SectionFlags,
        contents: &[u8],
        alignment: u64,
    ) -> SectionId {
        let bits = if kind == elf::SHT_NOBITS {
            SectionKind::UninitializedData
        } else {
            SectionKind::Data
        };
        let id = self.object.add_section(vec![], name.into(), bits);
        let flags = SectionFlags::Elf { sh_type: kind, sh_flags: flags };
        self.object.section_mut(id).flags = flags;
        if kind == elf::SHT_NOBITS {
            self.object.append_section_bss(id, contents.len() as u64, alignment);
        } else {
            self.object.append_section_data(id, contents, alignment);
        }
        id
    }

    /// Adds a section of writable data, the kind of section that a linker set uses.
    pub fn set(&mut self, name: &str, contents: &[u8]) -> SectionId {
        let flags = elf::SHF_ALLOC | elf::SHF_WRITE;
        self.section(name, elf::SHT_PROGBITS, flags, contents, 8)
    }

    /// Appends `contents` to a section, aligned to 8 bytes; returns their offset.
    pub fn append(&mut self, section: SectionId, contents: &[u8]) -> u64 {
        self.object.append_section_data(section, contents, 8)
    }

    fn symbol(&mut self, name: &str, value: u64, section: SymbolSection, weak: bool) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.into(),
            value,
            size: 0,
            kind: SymbolKind::Data,
            scope: SymbolScope::Linkage,
            weak,
            section,
            flags: SymbolFlags::None,
        })
    }

    /// Defines a global symbol.
    pub fn define(&mut self, name: &str, section: SectionId, value: u64) -> SymbolId {
        self.symbol(name, value, SymbolSection::Section(section), false)
    }

    /// Defines a local symbol for a function.
    pub fn function(&mut self, name: &str, section: SectionId, value: u64, size: u64) {
        self.object.add_symbol(Symbol {
            name: name.into(),
            value,
            size,
            kind: SymbolKind::Text,
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }

    /// Defines a global symbol for data of `size` bytes.
    pub fn object_symbol(&mut self, name: &str, section: SectionId, value: u64, size: u64) {
        let symbol = self.define(name, section, value);
        self.object.symbol_mut(symbol).size = size;
    }

    /// Overwrites the contents of a section from offset `at` on.
    pub fn patch(&mut self, section: SectionId, at: u64, contents: &[u8]) {
        let at = at as usize;
        self.object.section_mut(section).data_mut()[at..at + contents.len()]
            .copy_from_slice(contents);
    }

    /// Adds a symbol that another file defines.
    pub fn undefined(&mut self, name: &str, weak: bool) -> SymbolId {
        self.symbol(name, 0, SymbolSection::Undefined, weak)
    }

    /// Adds a common symbol (`SHN_COMMON`) of 8 bytes.
    pub fn common(&mut self, name: &str) -> SymbolId {
        self.object.add_common_symbol(
            Symbol {
                name: name.into(),
                value: 0,
                size: 8,
                kind: SymbolKind::Data,
                scope: SymbolScope::Linkage,
                weak: false,
                section: SymbolSection::Common,
                flags: SymbolFlags::None,
            },
            8,
            8,
        )
    }

    /// Returns the symbol of a section.
    pub fn section_symbol(&mut self, section: SectionId) -> SymbolId {
        self.object.section_symbol(section)
    }

    /// Adds a relocation at `offset` in a section.
    ///
    /// # Panics
    /// If the format does not support the relocation.
    pub fn relocate(
        &mut self,
        section: SectionId,
        offset: u64,
        kind: RelocationType,
        symbol: SymbolId,
        addend: i64,
    ) {
        let flags = RelocationFlags::Elf { r_type: kind };
        self.object.add_relocation(section, Relocation { offset, symbol, addend, flags }).unwrap();
    }

    /// Appends to `section` a pointer to offset `addend` of the section `to`; returns the offset of the pointer.
    pub fn pointer(&mut self, section: SectionId, to: SectionId, addend: u64) -> u64 {
        let at = self.append(section, &[0; 8]);
        let symbol = self.section_symbol(to);
        self.relocate(section, at, elf::R_X86_64_64, symbol, addend as i64);
        at
    }

    /// Returns the bytes of the file.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn finish(self) -> Vec<u8> {
        self.object.write().unwrap()
    }
}
