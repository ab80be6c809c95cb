//! A small module for illumos that is good, for tests to break.

use object::build::elf::{Builder, Relocation, SectionData, SectionId, SymbolId};
use object::{Endianness, elf};

/// Writable and loaded, loaded, and executable.
pub(crate) const WRITABLE: elf::SectionFlags =
    elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0);
pub(crate) const READ_ONLY: elf::SectionFlags = elf::SHF_ALLOC;
pub(crate) const CODE: elf::SectionFlags =
    elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0);
const NOT_LOADED: elf::SectionFlags = elf::SectionFlags(0);

/// A call of the probe and of the kernel; then the three functions that the kernel calls.
const TEXT: [u8; 16] = [
    0x90, 0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc3, // _init
    0xc3, 0x90, // _info
    0xc3, 0x90, // _fini
];

/// The offset of the probe's relocation in the text.
pub(crate) const SITE: u64 = 2;
/// The probe's symbol.
pub(crate) const PROBE: &str = "__dtrace_probe___proc_exec__success";

/// The module under construction.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) builder: Builder<'static>,
    symtab: SectionId,
    pub(crate) text: SectionId,
    pub(crate) data: SectionId,
}

impl Fixture {
    /// A module that breaks no rule.
    pub(crate) fn good() -> Self {
        let mut builder = Builder::new(Endianness::Little, true);
        builder.header.e_type = elf::ET_REL;
        builder.header.e_machine = elf::EM_X86_64;
        builder.header.os_abi = elf::ELFOSABI_SOLARIS;
        let mut table = |name: &'static str, kind, data| {
            let section = builder.sections.add();
            section.name = name.into();
            section.sh_type = kind;
            section.sh_addralign = 8;
            section.data = data;
            section.id()
        };
        let strtab = table(".strtab", elf::SHT_STRTAB, SectionData::String);
        table(".shstrtab", elf::SHT_STRTAB, SectionData::SectionString);
        let symtab = table(".symtab", elf::SHT_SYMTAB, SectionData::Symbol);
        builder.sections.get_mut(symtab).sh_link_section = Some(strtab);
        builder.sections.get_mut(symtab).sh_entsize = 24;
        let mut fixture = Self { builder, symtab, text: symtab, data: symtab };
        fixture.fill();
        fixture
    }

    fn fill(&mut self) {
        self.text = self.section(".text", CODE, TEXT.to_vec());
        self.data = self.section(".data", WRITABLE, vec![0; 16]);
        for (name, value, size) in [("_init", 0, 12), ("_info", 12, 1), ("_fini", 14, 1)] {
            let symbol = self.symbol(name, Some(self.text), elf::STB_GLOBAL);
            let symbol = self.builder.symbols.get_mut(symbol);
            symbol.set_st_info(elf::STB_GLOBAL, elf::STT_FUNC);
            (symbol.st_value, symbol.st_size) = (value, size);
        }
        let probe = self.symbol(PROBE, None, elf::STB_GLOBAL);
        let install = self.symbol("mod_install", None, elf::STB_GLOBAL);
        let text = self.section_symbol(self.text);
        let call = |at, symbol| relocation(at, symbol, elf::R_X86_64_PLT32, -4);
        self.relocate(self.text, vec![call(SITE, probe), call(7, install)]);
        self.relocate(self.data, vec![relocation(8, text, elf::R_X86_64_64, 12)]);
        self.depends(&["misc/mac", "drv/ip"]);
    }

    /// Adds a dynamic section with these dependencies. The module's other dependencies remain.
    pub(crate) fn depends(&mut self, names: &[&str]) {
        let mut strings = vec![0];
        let mut dynamic = Vec::new();
        for name in names {
            dynamic.extend([1, strings.len() as u64].map(u64::to_le_bytes).concat());
            strings.extend([name.as_bytes(), &[0]].concat());
        }
        dynamic.extend([0; 16]);
        let strings = self.section(".dynstr", NOT_LOADED, strings);
        self.builder.sections.get_mut(strings).sh_type = elf::SHT_STRTAB;
        let dynamic = self.section(".dynamic", NOT_LOADED, dynamic);
        let section = self.builder.sections.get_mut(dynamic);
        section.sh_type = elf::SHT_DYNAMIC;
        section.sh_link_section = Some(strings);
    }

    /// Adds a section.
    pub(crate) fn section(
        &mut self,
        name: &'static str,
        flags: elf::SectionFlags,
        data: Vec<u8>,
    ) -> SectionId {
        let section = self.builder.sections.add();
        section.name = name.into();
        section.sh_type = elf::SHT_PROGBITS;
        section.sh_flags = flags;
        section.sh_addralign = 8;
        section.data = SectionData::Data(data.into());
        section.id()
    }

    /// Adds a section that is not loaded.
    pub(crate) fn note(&mut self, name: &'static str, data: &[u8]) {
        self.section(name, NOT_LOADED, data.to_vec());
    }

    /// Adds a symbol; without a section it is undefined.
    pub(crate) fn symbol(
        &mut self,
        name: &'static str,
        section: Option<SectionId>,
        bind: elf::SymbolBind,
    ) -> SymbolId {
        let symbol = self.builder.symbols.add();
        symbol.name = name.into();
        symbol.section = section;
        symbol.set_st_info(bind, elf::STT_NOTYPE);
        symbol.id()
    }

    fn section_symbol(&mut self, section: SectionId) -> SymbolId {
        let symbol = self.builder.symbols.add();
        symbol.section = Some(section);
        symbol.set_st_info(elf::STB_LOCAL, elf::STT_SECTION);
        symbol.id()
    }

    /// Adds relocations of a section.
    pub(crate) fn relocate(&mut self, of: SectionId, relocations: Vec<Relocation>) {
        let name = format!(".rela{}", self.builder.sections.get(of).name);
        let section = self.builder.sections.add();
        section.name = name.into_bytes().into();
        section.sh_type = elf::SHT_RELA;
        section.sh_flags = elf::SHF_INFO_LINK;
        section.sh_addralign = 8;
        section.sh_entsize = 24;
        section.sh_link_section = Some(self.symtab);
        section.sh_info_section = Some(of);
        section.data = SectionData::Relocation(relocations);
    }

    /// The section of a name.
    pub(crate) fn named(&mut self, name: &str) -> &mut object::build::elf::Section<'static> {
        let found =
            self.builder.sections.iter_mut().find(|section| *section.name == *name.as_bytes());
        found.unwrap_or_else(|| panic!("no section {name}"))
    }

    /// The bytes of a section.
    pub(crate) fn bytes(&mut self, name: &str) -> &mut Vec<u8> {
        match &mut self.named(name).data {
            SectionData::Data(data) => data.to_mut(),
            other => panic!("{name} has no bytes: {other:?}"),
        }
    }

    /// A relocation of the text: that of the probe, or that of `mod_install`.
    pub(crate) fn relocation(&mut self, index: usize) -> &mut Relocation {
        match &mut self.named(".rela.text").data {
            SectionData::Relocation(relocations) => &mut relocations[index],
            other => panic!("no relocations: {other:?}"),
        }
    }

    /// The symbol of a name.
    pub(crate) fn symbol_named(&mut self, name: &str) -> &mut object::build::elf::Symbol<'static> {
        let found = self.builder.symbols.iter_mut().find(|of| *of.name == *name.as_bytes());
        found.unwrap_or_else(|| panic!("no symbol {name}"))
    }

    /// The file.
    pub(crate) fn file(mut self) -> Vec<u8> {
        let mut offset = self.builder.file_header_size();
        for section in &mut self.builder.sections {
            if let SectionData::Relocation(relocations) = &mut section.data {
                relocations.sort_by_key(|of| of.r_offset);
            }
            if section.is_alloc() {
                offset = offset.next_multiple_of(16);
                section.sh_offset = offset;
                if let SectionData::Data(data) = &section.data {
                    offset += data.len() as u64;
                }
            }
        }
        let mut file = Vec::new();
        self.builder.write(&mut file).expect("the fixture can be written");
        file
    }
}

/// A relocation.
pub(crate) fn relocation(
    at: u64,
    symbol: SymbolId,
    kind: elf::RelocationType,
    addend: i64,
) -> Relocation {
    Relocation { r_offset: at, symbol: Some(symbol), r_type: kind, r_addend: addend }
}

/// A file whose header of the section `name` has been changed.
pub(crate) fn with_header(mut file: Vec<u8>, name: &str, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let word =
        |file: &[u8], at: usize| u64::from_le_bytes(*file[at..].first_chunk().unwrap()) as usize;
    let half = |file: &[u8], at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let headers = word(&file, 40);
    let names = word(&file, headers + half(&file, 62) * 64 + 24);
    for at in (0..half(&file, 60)).map(|index| headers + index * 64) {
        let offset = u32::from_le_bytes(*file[at..].first_chunk().unwrap()) as usize;
        let found = file[names + offset..].split(|&byte| byte == 0).next().unwrap();
        if found == name.as_bytes() {
            change(&mut file[at..at + 64]);
            return file;
        }
    }
    panic!("no section {name}")
}
