//! A small relocatable module that is good, for tests to break.

use object::build::elf::{Builder, Relocation, SectionData, SectionId, SymbolId};
use object::{Endianness, elf};
use sdt_core::{Probe, Provider};

use super::{EXEC_SUCCESS, KERNEL, KERNELS, PROC, PROC_EXAMPLE, constants, record};
use crate::platform::{FreeBsd, Generation};

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

/// The section with the records of the kernel's sdt, and where they are in there; that of the provider is first.
pub(crate) const RECORDS: &str = ".data.sdt";
pub(crate) const PROBE: u64 = 64;
pub(crate) const ARGUMENTS: u64 = 192;
/// The strings that they point to.
const NAMES: &[u8; 30] = b"exec__success\0char *\0string_t\0";
const NO_NAME: i64 = 13;
const CHAR_POINTER: i64 = 14;
const STRING_T: i64 = 21;

/// Symbols of sections that all modules have.
struct Base {
    text: SymbolId,
    rodata: SymbolId,
}

/// The module under construction, and handles to its parts.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) builder: Builder<'static>,
    symtab: SectionId,
}

impl Fixture {
    /// A module with a provider of its own that breaks no rule.
    pub(crate) fn good() -> Self {
        let mut fixture = Self::with_symbols();
        let base = fixture.base(FreeBsd::default());
        fixture.own_provider(base);
        fixture
    }

    /// A module with the records of the kernel's sdt that breaks no rule.
    pub(crate) fn native(release: FreeBsd) -> Self {
        let mut fixture = Self::with_symbols();
        let base = fixture.base(release);
        fixture.records(release, base);
        fixture
    }

    fn with_symbols() -> Self {
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
        Self { builder, symtab }
    }

    /// Text, constants, a SYSINIT and the metadata.
    fn base(&mut self, release: FreeBsd) -> Base {
        let text = self.section(".text", CODE, TEXT.to_vec());
        let printf = self.symbol("printf", None, elf::STB_GLOBAL);
        let mut constants = constants();
        let versions = [release.version(), release.version(), release.highest_version()];
        let versions = versions.map(u32::to_le_bytes).concat();
        constants[KERNELS..KERNELS + 12].copy_from_slice(&versions);
        let rodata = self.section(".rodata", READ_ONLY, constants);
        let sysinit = self.section(".data", WRITABLE, vec![0; release.sysinit_size() as usize]);
        let metadata = self.section("set_modmetadata_set", READ_ONLY, vec![0; 16]);
        let sysinits = self.section("set_sysinit_set", READ_ONLY, vec![0; 8]);
        let [text_s, rodata_s, sysinit_s] =
            [text, rodata, sysinit].map(|section| self.section_symbol(section));
        let call = if release.takes_plt32() { elf::R_X86_64_PLT32 } else { elf::R_X86_64_PC32 };
        self.relocate(text, vec![relocation(9, printf, call, -4)]);
        self.relocate(
            rodata,
            vec![
                pointer(64 + 8, rodata_s, 112),
                pointer(64 + 16, rodata_s, PROC_EXAMPLE),
                pointer(88 + 8, rodata_s, KERNELS as i64),
                pointer(88 + 16, rodata_s, KERNEL),
                pointer(112, rodata_s, PROC_EXAMPLE),
            ],
        );
        let function = release.sysinit_size() - 16;
        self.relocate(sysinit, vec![pointer(function, text_s, 0)]);
        self.relocate(metadata, vec![pointer(0, rodata_s, 64), pointer(8, rodata_s, 88)]);
        self.relocate(sysinits, vec![pointer(0, sysinit_s, 0)]);
        Base { text: text_s, rodata: rodata_s }
    }

    fn own_provider(&mut self, Base { text, rodata }: Base) {
        let providers =
            self.section("linkme_SDT_PROVIDERS", WRITABLE, record(size_of::<Provider>(), 8, 5));
        let probes =
            self.section("linkme_SDT_PROBES", WRITABLE, record(size_of::<Probe>(), 16, 13));
        let sites = self.section("sdt_sites", WRITABLE, vec![0; 32]);
        self.section("linkm2_SDT_PROBES", READ_ONLY, vec![1, 0, 0, 0, 0, 0, 0, 0]);
        let [providers_s, probes_s] =
            [providers, probes].map(|section| self.section_symbol(section));
        self.relocate(providers, vec![pointer(8, rodata, PROC)]);
        self.relocate(probes, vec![pointer(8, providers_s, 0), pointer(16, rodata, EXEC_SUCCESS)]);
        let cold = pointer(16, text, COLD.cast_signed());
        self.relocate(sites, vec![pointer(0, probes_s, 0), pointer(8, text, 0), cold]);
    }

    /// Records of a provider, a probe, and its two arguments, with the strings that they point to.
    fn records(&mut self, release: FreeBsd, Base { text, rodata }: Base) {
        let mut bytes = vec![0; ARGUMENTS as usize + 96];
        let version = release.generation().probe_size();
        bytes[PROBE as usize..][..4].copy_from_slice(&(version as u32).to_le_bytes());
        bytes[ARGUMENTS as usize + 48] = 1;
        let records = self.section(RECORDS, WRITABLE, bytes);
        let strings = self.section(".rodata.names", READ_ONLY, NAMES.to_vec());
        let [records_s, strings_s] = [records, strings].map(|section| self.section_symbol(section));
        let name = PROBE + version - 32;
        self.relocate(
            records,
            vec![
                pointer(0, rodata, PROC),
                pointer(PROBE + 8, records_s, 0),
                pointer(name - 16, strings_s, NO_NAME),
                pointer(name - 8, strings_s, NO_NAME),
                pointer(name, strings_s, 0),
                pointer(ARGUMENTS + 8, strings_s, CHAR_POINTER),
                pointer(ARGUMENTS + 40, records_s, PROBE.cast_signed()),
                pointer(ARGUMENTS + 48 + 8, strings_s, CHAR_POINTER),
                pointer(ARGUMENTS + 48 + 16, strings_s, STRING_T),
                pointer(ARGUMENTS + 48 + 40, records_s, PROBE.cast_signed()),
            ],
        );
        for (set, elements) in [
            ("set_sdt_providers_set", &[0][..]),
            ("set_sdt_probes_set", &[PROBE]),
            ("set_sdt_argtypes_set", &[ARGUMENTS, ARGUMENTS + 48]),
        ] {
            let section = self.section(set, READ_ONLY, vec![0; 8 * elements.len()]);
            let places = (0..).step_by(8).zip(elements);
            let pointers = places.map(|(at, &to)| pointer(at, records_s, to.cast_signed()));
            self.relocate(section, pointers.collect());
        }
        if release.generation() == Generation::Patched {
            let sites = self.section("set_sdt_tracepoint_set", WRITABLE, vec![0; 32]);
            let probe = pointer(0, records_s, PROBE.cast_signed());
            let cold = pointer(16, text, COLD.cast_signed());
            self.relocate(sites, vec![probe, pointer(8, text, 0), cold]);
        }
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

fn pointer(at: u64, symbol: SymbolId, addend: i64) -> Relocation {
    relocation(at, symbol, elf::R_X86_64_64, addend)
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
