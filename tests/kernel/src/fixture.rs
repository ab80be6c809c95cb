//! Small files for the tests: ET_REL here, with SDT records in [`sdt`]; ET_DYN in [`shared`].

pub(crate) mod sdt;
pub(crate) mod shared;

use crate::freebsd::Release;
use object_core::elf::{self, RelocationType};
use object_core::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object_core::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope,
};

/// A file in the making.
pub(crate) struct Builder {
    object: Object<'static>,
    text: SectionId,
    data: SectionId,
}

impl Builder {
    /// A file with some code and some data.
    pub(crate) fn new() -> Self {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = object.add_section(vec![], b".text".to_vec(), SectionKind::Text);
        object.append_section_data(text, &[0x90; 64], 16);
        let data = object.add_section(vec![], b".data".to_vec(), SectionKind::Data);
        object.append_section_data(data, &[0; 64], 8);
        Self { object, text, data }
    }

    pub(crate) fn text(&self) -> SectionId {
        self.text
    }

    pub(crate) fn data(&self) -> SectionId {
        self.data
    }

    /// One more section, with flags of ELF's.
    pub(crate) fn section(
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

    /// A section of writable data, as linker sets are.
    pub(crate) fn set(&mut self, name: &str, contents: &[u8]) -> SectionId {
        let flags = elf::SHF_ALLOC | elf::SHF_WRITE;
        self.section(name, elf::SHT_PROGBITS, flags, contents, 8)
    }

    /// More contents for a section; where they are.
    pub(crate) fn append(&mut self, section: SectionId, contents: &[u8]) -> u64 {
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

    /// A global symbol.
    pub(crate) fn define(&mut self, name: &str, section: SectionId, value: u64) -> SymbolId {
        self.symbol(name, value, SymbolSection::Section(section), false)
    }

    /// The symbol of a function of the file's own.
    pub(crate) fn function(&mut self, name: &str, section: SectionId, value: u64, size: u64) {
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

    /// The symbol of some data, with its size.
    pub(crate) fn object_symbol(&mut self, name: &str, section: SectionId, value: u64, size: u64) {
        let symbol = self.define(name, section, value);
        self.object.symbol_mut(symbol).size = size;
    }

    /// Other contents for a part of a section.
    pub(crate) fn patch(&mut self, section: SectionId, at: u64, contents: &[u8]) {
        let at = at as usize;
        self.object.section_mut(section).data_mut()[at..at + contents.len()]
            .copy_from_slice(contents);
    }

    /// A symbol that somebody else is to define.
    pub(crate) fn undefined(&mut self, name: &str, weak: bool) -> SymbolId {
        self.symbol(name, 0, SymbolSection::Undefined, weak)
    }

    /// A symbol of the common block.
    pub(crate) fn common(&mut self, name: &str) -> SymbolId {
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

    /// The symbol of a section.
    pub(crate) fn section_symbol(&mut self, section: SectionId) -> SymbolId {
        self.object.section_symbol(section)
    }

    pub(crate) fn relocate(
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

    /// Appends a pointer to a place in a section; where it is.
    pub(crate) fn pointer(&mut self, section: SectionId, to: SectionId, addend: u64) -> u64 {
        let at = self.append(section, &[0; 8]);
        let symbol = self.section_symbol(to);
        self.relocate(section, at, elf::R_X86_64_64, symbol, addend as i64);
        at
    }

    /// The file.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.object.write().unwrap()
    }
}

/// A module as C's macros make one.
pub(crate) struct ModuleBuilder {
    pub(crate) file: Builder,
    metadata: SectionId,
    sysinit: SectionId,
    sysuninit: SectionId,
    /// Where the function is in a `struct sysinit`.
    sysinit_function: u64,
}

impl ModuleBuilder {
    pub(crate) fn new() -> Self {
        Self::of(Release::DEFAULT)
    }

    /// With records as a release has them.
    pub(crate) fn of(release: Release) -> Self {
        let mut file = Builder::new();
        let metadata = file.set("set_modmetadata_set", &[]);
        let sysinit = file.set("set_sysinit_set", &[]);
        let sysuninit = file.set("set_sysuninit_set", &[]);
        let sysinit_function = release.sysinit_function() as u64;
        Self { file, metadata, sysinit, sysuninit, sysinit_function }
    }

    fn text(&mut self, text: &str) -> u64 {
        let data = self.file.data();
        self.file.append(data, &[text.as_bytes(), &[0]].concat())
    }

    fn metadata(&mut self, kind: i32, record: u64, name: u64) {
        let data = self.file.data();
        let at = self.file.append(data, &[1i32.to_le_bytes(), kind.to_le_bytes()].concat());
        self.file.pointer(data, data, record);
        self.file.pointer(data, data, name);
        self.file.pointer(self.metadata, data, at);
    }

    /// `MODULE_DEPEND`.
    pub(crate) fn depend(mut self, name: &str, range: [i32; 3]) -> Self {
        let data = self.file.data();
        let record = self.file.append(data, range.map(i32::to_le_bytes).as_flattened());
        let name = self.text(name);
        self.metadata(1, record, name);
        self
    }

    /// `MODULE_VERSION`.
    pub(crate) fn version(mut self, name: &str, version: i32) -> Self {
        let data = self.file.data();
        let record = self.file.append(data, &version.to_le_bytes());
        let name = self.text(name);
        self.metadata(3, record, name);
        self
    }

    /// `DECLARE_MODULE`, the handler being `handler` bytes into the code.
    pub(crate) fn module(mut self, name: &str, handler: u64) -> Self {
        let (text, data) = (self.file.text(), self.file.data());
        let name = self.text(name);
        let record = self.file.pointer(data, data, name);
        self.file.pointer(data, text, handler);
        self.file.append(data, &[0; 8]);
        self.metadata(2, record, name);
        self.start(false, record)
    }

    /// The SYSINIT of `DECLARE_MODULE`, or a SYSUNINIT like it, for a module's record in the data.
    pub(crate) fn start(mut self, un: bool, record: u64) -> Self {
        let data = self.file.data();
        let init = self.file.undefined("module_register_init", false);
        let at = self.sysinit_record(0x310_0000, 0);
        let function = at + self.sysinit_function;
        self.file.relocate(data, function, elf::R_X86_64_64, init, 0);
        let symbol = self.file.section_symbol(data);
        self.file.relocate(data, function + 8, elf::R_X86_64_64, symbol, record as i64);
        self.file.pointer(if un { self.sysuninit } else { self.sysinit }, data, at);
        self
    }

    fn sysinit_record(&mut self, subsystem: u32, order: u32) -> u64 {
        let data = self.file.data();
        let at = self.file.append(data, &subsystem.to_le_bytes());
        assert_eq!(at % 8, 0);
        // The next field follows without padding.
        let functions = vec![0; self.sysinit_function as usize + 8];
        let rest = [&order.to_le_bytes()[..], &functions].concat();
        let order_at = self.file.object.append_section_data(data, &rest, 4);
        assert_eq!(order_at, at + 4);
        at
    }

    /// `SYSINIT` or `SYSUNINIT` of the function `function` bytes into the code.
    pub(crate) fn sysinit(mut self, un: bool, subsystem: u32, order: u32, function: u64) -> Self {
        let (text, data) = (self.file.text(), self.file.data());
        let at = self.sysinit_record(subsystem, order);
        let symbol = self.file.section_symbol(text);
        let at_function = at + self.sysinit_function;
        self.file.relocate(data, at_function, elf::R_X86_64_64, symbol, function as i64);
        self.file.pointer(if un { self.sysuninit } else { self.sysinit }, data, at);
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.file.finish()
    }
}
