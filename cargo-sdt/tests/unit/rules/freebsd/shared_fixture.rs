//! A small shared object that is good, for tests to break. Every part has a fixed place, the same in the file
//! and in memory.

use object::elf;
use sdt_core::{Probe, Provider};

use super::{EXEC_SUCCESS, KERNEL, PROC, PROC_EXAMPLE, constants, record};
use crate::arch::Arch;

const R: u64 = elf::SHF_ALLOC.0;
const RX: u64 = R | elf::SHF_EXECINSTR.0;
const RW: u64 = R | elf::SHF_WRITE.0;

pub(super) const CONSTANTS: u64 = 0xb00;
pub(super) const TEXT: u64 = 0x1000;
pub(super) const COLD: u64 = TEXT + 8;
pub(super) const DATA: u64 = 0x2000;
const PROVIDERS: u64 = 0x2040;
const PROBES: u64 = 0x2080;
pub(super) const SITES: u64 = 0x2100;
const DECLARED: u64 = 0x2140;
const METADATA: u64 = 0x2180;
const SYSINITS: u64 = 0x21c0;
const DYNAMIC: u64 = 0x2200;
/// File offset of the sections that are not mapped.
const UNMAPPED: usize = 0x3000;

/// The module.
pub(super) struct Fixture {
    pub(super) arch: Arch,
    pub(super) kind: u16,
    pub(super) headers_at: u64,
    pub(super) segments: Vec<Segment>,
    pub(super) sections: Vec<Section>,
    pub(super) dynamic: Vec<(elf::DynamicTag, u64)>,
    pub(super) relocations: Vec<Relocation>,
    /// The symbols of the dynamic table.
    pub(super) symbols: Vec<Symbol>,
    /// The symbols of the full table.
    pub(super) more_symbols: Vec<Symbol>,
}

pub(super) struct Segment {
    pub(super) kind: elf::ProgramType,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) file_size: u64,
    pub(super) size: u64,
}

pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) kind: elf::SectionType,
    pub(super) flags: u64,
    pub(super) align: u64,
    pub(super) address: u64,
    pub(super) data: Vec<u8>,
}

#[derive(Clone, Copy)]
pub(super) struct Relocation {
    pub(super) address: u64,
    pub(super) kind: elf::RelocationType,
    pub(super) symbol: u32,
    pub(super) addend: i64,
}

pub(super) struct Symbol {
    pub(super) name: &'static str,
    pub(super) bind: elf::SymbolBind,
    /// Name of its section; none: undefined.
    pub(super) section: Option<&'static str>,
    pub(super) value: u64,
}

/// The relocations of an address of the module's own, and of a symbol's.
pub(super) fn kinds(arch: Arch) -> (elf::RelocationType, elf::RelocationType) {
    match arch {
        Arch::Aarch64 => (elf::R_AARCH64_RELATIVE, elf::R_AARCH64_ABS64),
        Arch::Riscv64 => (elf::R_RISCV_RELATIVE, elf::R_RISCV_64),
        Arch::X86_64 => panic!("modules for x86_64 are no shared objects"),
    }
}

impl Fixture {
    /// A module that breaks no rule.
    pub(super) fn good(arch: Arch) -> Self {
        let text: [u32; 4] = match arch {
            // nop; ret; add x0, x0, #1; b .-8
            Arch::Aarch64 => [0xd503_201f, 0xd65f_03c0, 0x9100_0400, 0x17ff_fffe],
            // nop; ret; addi a0, a0, 1; j .-8
            Arch::Riscv64 => [0x0000_0013, 0x0000_8067, 0x0015_0513, 0xff9f_f06f],
            Arch::X86_64 => panic!("modules for x86_64 are no shared objects"),
        };
        let section = |name, flags, address, data| Section {
            name,
            kind: elf::SHT_PROGBITS,
            flags,
            align: 8,
            address,
            data,
        };
        let segment = |kind, flags: elf::ProgramFlags, start, end| Segment {
            kind,
            flags: flags.0,
            offset: start,
            address: start,
            file_size: end - start,
            size: end - start,
        };
        let symbol = |name, section, value| Symbol { name, bind: elf::STB_GLOBAL, section, value };
        let mut fixture = Self {
            arch,
            kind: elf::ET_DYN.0,
            headers_at: 64,
            segments: vec![
                segment(elf::PT_LOAD, elf::PF_R, 0, 0xc00),
                segment(elf::PT_LOAD, elf::PF_R | elf::PF_X, TEXT, TEXT + 0x100),
                segment(elf::PT_LOAD, elf::PF_R | elf::PF_W, DATA, DYNAMIC + 0x100),
                segment(elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, DYNAMIC, DYNAMIC + 0x100),
            ],
            sections: vec![
                section("", 0, 0, Vec::new()),
                section(".rodata", R, CONSTANTS, constants()),
                section(".text", RX, TEXT, text.map(u32::to_le_bytes).concat()),
                // A struct sysinit, and at 32 the bounds of the sites.
                section(".data", RW, DATA, vec![0; 48]),
                section("linkme_SDT_PROVIDERS", RW, PROVIDERS, record(size_of::<Provider>(), 8, 5)),
                section("linkme_SDT_PROBES", RW, PROBES, record(size_of::<Probe>(), 16, 13)),
                section("sdt_sites", RW, SITES, vec![0; 32]),
                section("linkm2_SDT_PROBES", R, DECLARED, vec![1, 0, 0, 0, 0, 0, 0, 0]),
                section("set_modmetadata_set", RW, METADATA, vec![0; 16]),
                section("set_sysinit_set", RW, SYSINITS, vec![0; 8]),
            ],
            dynamic: vec![
                (elf::DT_HASH, 0x400),
                (elf::DT_SYMTAB, 0x200),
                (elf::DT_STRTAB, 0x500),
                (elf::DT_STRSZ, 0x100),
                (elf::DT_RELA, 0x600),
            ],
            relocations: Vec::new(),
            symbols: vec![
                symbol("", None, 0),
                symbol("module_register_init", None, 0),
                symbol("printf", None, 0),
                symbol("__start_set_modmetadata_set", Some("set_modmetadata_set"), METADATA),
                symbol("__stop_set_modmetadata_set", Some("set_modmetadata_set"), METADATA + 16),
                symbol("__start_set_sysinit_set", Some("set_sysinit_set"), SYSINITS),
            ],
            // The loader looks at these, too.
            more_symbols: vec![
                symbol("", None, 0),
                symbol("__stop_set_sysinit_set", Some("set_sysinit_set"), SYSINITS + 8),
                symbol("__sdt_bounds", Some(".data"), DATA + 32),
            ],
        };
        // `linkm2_` is in the segment of data, which is as good.
        fixture.section("linkm2_SDT_PROBES").flags = R;
        let constant = |offset| CONSTANTS.cast_signed() + offset;
        for (address, to) in [
            (CONSTANTS + 72, constant(112)),
            (CONSTANTS + 80, constant(PROC_EXAMPLE)),
            (CONSTANTS + 96, constant(136)),
            (CONSTANTS + 104, constant(KERNEL)),
            (CONSTANTS + 112, constant(PROC_EXAMPLE)),
            (DATA + 32, SITES.cast_signed()),
            (DATA + 40, SITES.cast_signed() + 32),
            (PROVIDERS + 8, constant(PROC)),
            (PROBES + 8, PROVIDERS.cast_signed()),
            (PROBES + 16, constant(EXEC_SUCCESS)),
            (SITES, PROBES.cast_signed()),
            (SITES + 8, TEXT.cast_signed()),
            (SITES + 16, COLD.cast_signed()),
            (METADATA, constant(64)),
            (METADATA + 8, constant(88)),
            (SYSINITS, DATA.cast_signed()),
        ] {
            let kind = kinds(arch).0;
            fixture.relocations.push(Relocation { address, kind, symbol: 0, addend: to });
        }
        let kind = kinds(arch).1;
        fixture.relocations.push(Relocation { address: DATA + 16, kind, symbol: 1, addend: 0 });
        fixture
    }

    /// A module with the records of the kernel's sdt, of 15, that breaks no rule.
    pub(super) fn native(arch: Arch) -> Self {
        let mut fixture = Self::good(arch);
        fixture.relocations.retain(|of| !(PROVIDERS..SITES).contains(&of.address));
        let mut version = vec![0; 112];
        version[0] = 112;
        for (old, name, data) in [
            ("linkme_SDT_PROVIDERS", ".data.provider", vec![0; 40]),
            ("linkme_SDT_PROBES", ".data.probe", version),
            ("sdt_sites", "set_sdt_tracepoint_set", vec![0; 32]),
            ("linkm2_SDT_PROBES", "set_sdt_probes_set", vec![0; 8]),
        ] {
            let section = fixture.section(old);
            (section.name, section.data) = (name, data);
        }
        fixture.sections.push(Section {
            name: "set_sdt_providers_set",
            kind: elf::SHT_PROGBITS,
            flags: R,
            align: 8,
            address: DECLARED + 8,
            data: vec![0; 8],
        });
        let constant = |offset| CONSTANTS.cast_signed() + offset;
        for (address, to) in [
            (PROVIDERS, constant(PROC)),
            (PROBES + 8, PROVIDERS.cast_signed()),
            // The end of the provider's name: an empty string.
            (PROBES + 64, constant(PROC + 4)),
            (PROBES + 72, constant(PROC + 4)),
            (PROBES + 80, constant(EXEC_SUCCESS)),
            (DECLARED, PROBES.cast_signed()),
            (DECLARED + 8, PROVIDERS.cast_signed()),
        ] {
            let kind = kinds(arch).0;
            fixture.relocations.push(Relocation { address, kind, symbol: 0, addend: to });
        }
        fixture.more_symbols.retain(|of| of.name != "__sdt_bounds");
        for (name, section, value) in [
            ("__start_set_sdt_providers_set", "set_sdt_providers_set", DECLARED + 8),
            ("__stop_set_sdt_providers_set", "set_sdt_providers_set", DECLARED + 16),
            ("__start_set_sdt_probes_set", "set_sdt_probes_set", DECLARED),
            ("__stop_set_sdt_probes_set", "set_sdt_probes_set", DECLARED + 8),
            ("__start_set_sdt_tracepoint_set", "set_sdt_tracepoint_set", SITES),
            ("__stop_set_sdt_tracepoint_set", "set_sdt_tracepoint_set", SITES + 32),
        ] {
            let (bind, section) = (elf::STB_GLOBAL, Some(section));
            fixture.more_symbols.push(Symbol { name, bind, section, value });
        }
        fixture
    }

    /// Puts a larger text behind all else, the site at its start and the cold block this far away.
    pub(super) fn stretch_text(&mut self, distance: u64) {
        const AWAY: u64 = 0x1_0000;
        let size = distance + 16;
        let mut segment = self.segments.remove(1);
        (segment.offset, segment.address) = (AWAY, AWAY);
        (segment.file_size, segment.size) = (size, size);
        self.segments.insert(2, segment);
        let text = self.section(".text");
        text.address = AWAY;
        text.data.resize(size as usize, 0);
        self.relocation(SITES + 8).addend = AWAY.cast_signed();
        self.relocation(SITES + 16).addend = (AWAY + distance).cast_signed();
    }

    /// The section of a name.
    pub(super) fn section(&mut self, name: &str) -> &mut Section {
        self.sections.iter_mut().find(|section| section.name == name).expect("there is one")
    }

    /// The relocation at an address.
    pub(super) fn relocation(&mut self, address: u64) -> &mut Relocation {
        let mut relocations = self.relocations.iter_mut();
        relocations.find(|relocation| relocation.address == address).expect("there is one")
    }

    /// The value of a tag in the dynamic section.
    pub(super) fn tag(&mut self, tag: elf::DynamicTag) -> &mut u64 {
        let found = self.dynamic.iter_mut().find(|(found, _)| *found == tag);
        &mut found.expect("there is one").1
    }

    /// The file.
    pub(super) fn file(&self) -> Vec<u8> {
        let ends = self.sections.iter().map(|of| of.address as usize + of.data.len());
        let mut file = vec![0; ends.fold(UNMAPPED, usize::max)];
        let (dynsym, dynstr) = self.table(&self.symbols);
        let count = self.symbols.len() as u32;
        // One chain has them all.
        let chain = (0..count).map(|index| if index == 0 { 0 } else { (index + 1) % count });
        let hash: Vec<u8> =
            [1, count, 1 % count].into_iter().chain(chain).flat_map(u32::to_le_bytes).collect();
        let relocations: Vec<u8> = self
            .relocations
            .iter()
            .flat_map(|of| {
                let info = u64::from(of.symbol) << 32 | u64::from(of.kind.0);
                [of.address, info, of.addend.cast_unsigned()].map(u64::to_le_bytes).concat()
            })
            .collect();
        let size = (elf::DT_RELASZ, relocations.len() as u64);
        let entries = self.dynamic.iter().copied().chain([size, (elf::DT_NULL, 0)]);
        let dynamic: Vec<u8> = entries
            .flat_map(|(tag, value)| [tag.0.cast_unsigned(), value].map(u64::to_le_bytes).concat())
            .collect();
        put(&mut file, 0x200, &dynsym);
        put(&mut file, 0x400, &hash);
        put(&mut file, 0x500, &dynstr);
        put(&mut file, 0x600, &relocations);
        put(&mut file, DYNAMIC, &dynamic);
        for section in &self.sections {
            put(&mut file, section.address, &section.data);
        }
        let segments: Vec<u8> = self.segments.iter().flat_map(Segment::header).collect();
        put(&mut file, self.headers_at, &segments);
        let table = self.section_table(&mut file);
        let header = self.header(table);
        put(&mut file, 0, &header);
        file
    }

    /// A symbol table and its strings.
    fn table(&self, symbols: &[Symbol]) -> (Vec<u8>, Vec<u8>) {
        let (mut table, mut strings) = (Vec::new(), vec![0]);
        for symbol in symbols {
            let name = if symbol.name.is_empty() { 0 } else { strings.len() as u32 };
            if name != 0 {
                strings.extend(symbol.name.bytes().chain([0]));
            }
            let index = symbol.section.map_or(0, |name| {
                self.sections.iter().position(|section| section.name == name).expect("there is one")
            });
            table.extend(name.to_le_bytes());
            table.extend([symbol.bind.0 << 4, 0]);
            table.extend((index as u16).to_le_bytes());
            table.extend([symbol.value, 0].map(u64::to_le_bytes).concat());
        }
        (table, strings)
    }

    /// Appends the sections that are not mapped, and returns the offset of the section headers.
    fn section_table(&self, file: &mut Vec<u8>) -> u64 {
        let mut append = |bytes: &[u8]| {
            let at = file.len().next_multiple_of(8);
            file.resize(at, 0);
            file.extend(bytes);
            (at as u64, bytes.len() as u64)
        };
        let (symbols, strings) = self.table(&self.more_symbols);
        let (symbols, strings) = (append(&symbols), append(&strings));
        let mut names = vec![0];
        let mut name = |text: &str| {
            let at = names.len() as u32;
            names.extend(text.bytes().chain([0]));
            at
        };
        let mut headers = Vec::new();
        for section in &self.sections {
            let kind = if section.name.is_empty() { elf::SHT_NULL } else { section.kind };
            let of = (section.address, section.data.len() as u64);
            let name = name(section.name);
            headers.extend(header(
                name,
                kind,
                section.flags,
                section.address,
                of,
                0,
                section.align,
            ));
        }
        let count = self.sections.len() as u32;
        headers.extend(header(name(".symtab"), elf::SHT_SYMTAB, 0, 0, symbols, count + 1, 8));
        headers.extend(header(name(".strtab"), elf::SHT_STRTAB, 0, 0, strings, 0, 1));
        let own = name(".shstrtab");
        let names = append(&names);
        headers.extend(header(own, elf::SHT_STRTAB, 0, 0, names, 0, 1));
        append(&headers).0
    }

    fn header(&self, sections: u64) -> Vec<u8> {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, elf::ELFOSABI_FREEBSD.0];
        bytes.resize(16, 0);
        bytes.extend([self.kind, self.arch.machine().0].map(u16::to_le_bytes).concat());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0, self.headers_at, sections].map(u64::to_le_bytes).concat());
        bytes.extend([0; 4]);
        let (segments, sections) = (self.segments.len() as u16, self.sections.len() as u16 + 3);
        let sizes = [64, 56, segments, 64, sections, sections - 1];
        bytes.extend(sizes.map(u16::to_le_bytes).concat());
        bytes
    }
}

impl Segment {
    fn header(&self) -> Vec<u8> {
        let mut bytes = [self.kind.0, self.flags].map(u32::to_le_bytes).concat();
        let words = [self.offset, self.address, self.address, self.file_size, self.size, 0x1000];
        bytes.extend(words.map(u64::to_le_bytes).concat());
        bytes
    }
}

/// A section's header. `at` is its place in the file, and its size there.
fn header(
    name: u32,
    kind: elf::SectionType,
    flags: u64,
    address: u64,
    at: (u64, u64),
    link: u32,
    align: u64,
) -> Vec<u8> {
    let entry = if kind == elf::SHT_SYMTAB { 24 } else { 0 };
    let mut bytes = [name, kind.0].map(u32::to_le_bytes).concat();
    bytes.extend([flags, address, at.0, at.1].map(u64::to_le_bytes).concat());
    bytes.extend([link, 0].map(u32::to_le_bytes).concat());
    bytes.extend([align, entry].map(u64::to_le_bytes).concat());
    bytes
}

fn put(file: &mut [u8], at: u64, bytes: &[u8]) {
    let at = at as usize;
    file[at..at + bytes.len()].copy_from_slice(bytes);
}
