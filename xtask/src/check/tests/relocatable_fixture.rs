//! A small relocatable module that is good, for tests to break.

use object::build::elf::{Builder, Relocation, SectionData, SectionId, SymbolId};
use object::{Endianness, elf};
use sdt_core::record::{Probe, Provider};

use super::{EXEC_SUCCESS, KERNEL, PROC, PROC_EXAMPLE, constants, record};

/// Writable and loaded, loaded, and executable.
pub(crate) const WRITABLE: elf::SectionFlags =
    elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0);
pub(crate) const READ_ONLY: elf::SectionFlags = elf::SHF_ALLOC;
pub(crate) const CODE: elf::SectionFlags =
    elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0);

/// The module's text: a site and a return; its cold block, a call of `printf` and a jump back.
pub(crate) const TEXT: [u8; 16] =
    [0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0xcc, 0xcc, 0xe8, 0, 0, 0, 0, 0xeb, 0xf6, 0xcc];
const COLD: u64 = 8;

/// The module under construction, and handles to its parts.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) builder: Builder<'static>,
    symtab: SectionId,
}

impl Fixture {
    /// A module that breaks no rule.
    pub(crate) fn good() -> Self {
        let mut builder = Builder::new(Endianness::Little, true);
        builder.header.e_type = elf::ET_REL;
        builder.header.e_machine = elf::EM_X86_64;
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
        let mut fixture = Self { builder, symtab };
        fixture.fill();
        fixture
    }

    fn fill(&mut self) {
        let text = self.section(".text", CODE, TEXT.to_vec());
        let printf = self.symbol("printf", None, elf::STB_GLOBAL);
        let rodata = self.section(".rodata", READ_ONLY, constants());
        let sysinit = self.section(".data", WRITABLE, vec![0; 32]);
        let providers =
            self.section("linkme_SDT_PROVIDERS", WRITABLE, record(size_of::<Provider>(), 8, 5));
        let probes =
            self.section("linkme_SDT_PROBES", WRITABLE, record(size_of::<Probe>(), 16, 13));
        let sites = self.section("sdt_sites", WRITABLE, vec![0; 32]);
        let declared = self.section("linkm2_SDT_PROBES", READ_ONLY, vec![1, 0, 0, 0, 0, 0, 0, 0]);
        let metadata = self.section("set_modmetadata_set", READ_ONLY, vec![0; 16]);
        let sysinits = self.section("set_sysinit_set", READ_ONLY, vec![0; 8]);
        let _ = declared;
        let [text_s, rodata_s, sysinit_s, providers_s, probes_s] =
            [text, rodata, sysinit, providers, probes].map(|section| self.section_symbol(section));
        let pointer = |at, symbol, addend| relocation(at, symbol, elf::R_X86_64_64, addend);
        self.relocate(text, vec![relocation(9, printf, elf::R_X86_64_PLT32, -4)]);
        self.relocate(
            rodata,
            vec![
                pointer(64 + 8, rodata_s, 112),
                pointer(64 + 16, rodata_s, PROC_EXAMPLE),
                pointer(88 + 8, rodata_s, 136),
                pointer(88 + 16, rodata_s, KERNEL),
                pointer(112, rodata_s, PROC_EXAMPLE),
            ],
        );
        self.relocate(sysinit, vec![pointer(16, text_s, 0)]);
        self.relocate(providers, vec![pointer(8, rodata_s, PROC)]);
        self.relocate(
            probes,
            vec![pointer(8, providers_s, 0), pointer(16, rodata_s, EXEC_SUCCESS)],
        );
        let cold = pointer(16, text_s, COLD.cast_signed());
        self.relocate(sites, vec![pointer(0, probes_s, 0), pointer(8, text_s, 0), cold]);
        self.relocate(metadata, vec![pointer(0, rodata_s, 64), pointer(8, rodata_s, 88)]);
        self.relocate(sysinits, vec![pointer(0, sysinit_s, 0)]);
    }

    /// Adds a section that is loaded.
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

    /// Adds the relocations of a section.
    pub(crate) fn relocate(&mut self, of: SectionId, relocations: Vec<Relocation>) -> SectionId {
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
        section.id()
    }

    /// The section of a name.
    pub(crate) fn named(&mut self, name: &str) -> &mut object::build::elf::Section<'static> {
        let found =
            self.builder.sections.iter_mut().find(|section| *section.name == *name.as_bytes());
        found.unwrap_or_else(|| panic!("no section {name}"))
    }

    /// The bytes of a section.
    pub(crate) fn data(&mut self, name: &str) -> &mut Vec<u8> {
        match &mut self.named(name).data {
            SectionData::Data(data) => data.to_mut(),
            other => panic!("{name} has no bytes: {other:?}"),
        }
    }

    /// The relocations in a relocation section.
    pub(crate) fn relocations(&mut self, name: &str) -> &mut Vec<Relocation> {
        match &mut self.named(name).data {
            SectionData::Relocation(relocations) => relocations,
            other => panic!("{name} has no relocations: {other:?}"),
        }
    }

    /// The file.
    pub(crate) fn file(mut self) -> Vec<u8> {
        let mut offset = self.builder.file_header_size();
        for section in &mut self.builder.sections {
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
