//! Reading a relocatable file.

use object::read::elf::{FileHeader as _, Rela as _, RelocationSections, SectionHeader as _};
use object::read::elf::{SectionTable, SymbolTable};
use object::{Endianness, SectionIndex, elf};

use super::{Dynamic, Header, Image, Relocation, Section, read_sections, read_symbols};
use crate::arch::Arch;
use crate::check::finding::{Findings, Problem};

pub(super) fn read<'data>(
    arch: Arch,
    header: &'data Header,
    data: &'data [u8],
    findings: &mut Findings,
) -> object::read::Result<Image<'data>> {
    let endian = header.endian()?;
    let table = header.sections(endian, data)?;
    let mut sections = read_sections(endian, &table, data)?;
    let tables = sections.iter().filter(|section| section.kind == elf::SHT_SYMTAB).count();
    if tables != 1 {
        findings.file(Problem::SymbolTables(tables));
    }
    let symbol_table: SymbolTable<'_, Header> = table.symbols(endian, data, elf::SHT_SYMTAB)?;
    let symbols = read_symbols(endian, &symbol_table, sections.len(), findings)?;
    read_relocations(endian, data, &table, symbol_table.section(), &mut sections, findings)?;
    Ok(Image {
        arch,
        sections,
        symbols,
        more_symbols: Vec::new(),
        segments: Vec::new(),
        dynamic: Dynamic::default(),
        hash: None,
    })
}

fn read_relocations<'data>(
    endian: Endianness,
    data: &'data [u8],
    table: &SectionTable<'data, Header>,
    symbols: SectionIndex,
    sections: &mut [Section<'data>],
    findings: &mut Findings,
) -> object::read::Result<()> {
    // Finds relocation sections that lead in circles.
    RelocationSections::parse(endian, table, symbols)?;
    for (index, section) in table.iter().enumerate() {
        let name = sections[index].name.clone();
        let applies_to = section.sh_info(endian) as usize;
        let loaded = sections.get(applies_to).is_some_and(Section::is_loaded);
        if section.rel(endian, data)?.is_some() && loaded {
            findings.section(&name, Problem::ImplicitAddends);
        }
        let Some((relocations, link)) = section.rela(endian, data)? else { continue };
        if sections.get(applies_to).is_none() || applies_to == 0 || link != symbols {
            findings.section(&name, Problem::StrayRelocations);
            continue;
        }
        for relocation in relocations {
            let symbol = relocation.symbol(endian, false).map_or(0, |symbol| symbol.0);
            let entry = Relocation {
                kind: relocation.r_type(endian, false),
                symbol,
                addend: relocation.r_addend(endian),
            };
            sections[applies_to].relocate(relocation.r_offset(endian), entry);
        }
    }
    Ok(())
}
