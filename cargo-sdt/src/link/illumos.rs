//! ET_REL for illumos's krtld, like `ld -ztype=kmod` of illumos: `ld -r` with a generated linker script, followed by
//! steps that lld does not support (`usr/src/uts/common/krtld/kobj.c`).
//!
//! A module names its dependencies in section `.sdt_depends`, which is not loaded: the names of modules (`misc/mac`,
//! `drv/ip`), each followed by a NUL. This link converts them to a dynamic section with DT_NEEDED entries, like those
//! of `ld -N`.
//!
//! krtld ignores visibility and does not define the bounds of sets. So this link makes each set one output section, and
//! defines its bounds. Only symbols that the module's author exports stay global: those that are global, visible and
//! not mangled in the objects. All others become local. Rust functions keep their names, which DTrace lists.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use object::build::Id as _;
use object::build::elf::{Builder, Section, SectionData, SectionId};
use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol as _, SymbolScope, elf};

use super::{LIMIT, LinkError, Sets, place_sets, read, sets, write};
use crate::process;
use crate::toolchain::Lld;

/// The section with the names of the modules on which a module depends, each followed by a NUL.
const DEPENDS: &str = ".sdt_depends";

/// The functions that krtld and `modctl.c` call.
pub(crate) const ENTRY_POINTS: [&str; 3] = ["_init", "_info", "_fini"];

/// The section flags that krtld uses.
const LOADED: elf::SectionFlags =
    elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0 | elf::SHF_EXECINSTR.0 | elf::SHF_TLS.0);

/// Links everything in a static library that is reachable from its entry points, its exports and its sets.
/// Intermediate files go to `folder`. Returns the module's bytes.
///
/// # Errors
/// The library cannot be read or the linker refuses it.
pub fn module(lld: &Lld, library: &Path, folder: &Path) -> Result<Vec<u8>, LinkError> {
    let archive = read(library)?;
    let name = library.to_string_lossy();
    let sets = sets(&archive, &name)?;
    let exports = exports(&archive, &name)?;
    let stem = folder.join(library.file_stem().unwrap_or_default());
    let (script, full) = (stem.with_extension("ld"), stem.with_extension("full"));
    write(&script, &script_for(&sets))?;
    let mut command = lld.command();
    command.args(["-m", "elf_x86_64", "-r", "--gc-sections", "--force-group-allocation"]);
    // A symbol without a definition stays undefined: the check reports it, with the place.
    for export in ENTRY_POINTS.into_iter().chain(exports.iter().map(String::as_str)) {
        command.arg(format!("--undefined={export}"));
    }
    command.arg("-T").arg(&script).arg("--whole-archive").arg(library).arg("-o").arg(&full);
    process::run(&mut command, LIMIT)?;
    finish(&read(&full)?, &exports)
}

/// Returns the symbols that an archive's objects export: global, of default visibility, with a name of the author's choice.
fn exports(archive: &[u8], name: &str) -> Result<BTreeSet<String>, LinkError> {
    let failed = |source| LinkError::Object { what: name.to_owned(), source };
    let mut exports = BTreeSet::new();
    for member in ArchiveFile::parse(archive).map_err(failed)?.members() {
        let data = member.and_then(|member| member.data(archive)).map_err(failed)?;
        if !data.starts_with(&elf::ELFMAG) {
            continue;
        }
        let object = object::File::parse(data).map_err(failed)?;
        let symbols = object.symbols().filter(|symbol| {
            symbol.is_definition() && !symbol.is_weak() && symbol.scope() == SymbolScope::Dynamic
        });
        let names = symbols.filter_map(|symbol| symbol.name().ok());
        exports.extend(names.filter(|name| !is_mangled(name)).map(str::to_owned));
    }
    Ok(exports)
}

/// Returns whether the name is mangled by rustc.
fn is_mangled(name: &str) -> bool {
    name.starts_with("_R") || name.starts_with("_ZN")
}

/// Returns the linker script: code, read-only data, writable data. Each set becomes one output section that is a root of the
/// garbage collection.
fn script_for(sets: &Sets) -> String {
    let mut script = String::from("SECTIONS\n{\n");
    script.push_str("  .text : { *(.text .text.*) }\n");
    script.push_str("  .rodata : { *(.rodata .rodata.*) }\n");
    place_sets(&mut script, sets, false);
    script.push_str("  .data : { *(.data .data.*) }\n");
    place_sets(&mut script, sets, true);
    script.push_str("  .bss : { *(.bss .bss.* COMMON) }\n");
    script.push_str(&format!("  {DEPENDS} : {{ *({DEPENDS}) }}\n"));
    // The kernel does not use unwind tables.
    script.push_str("  /DISCARD/ : { *(.eh_frame .comment .llvm_addrsig .note .note.*) }\n}\n");
    script
}

/// Drops debugging information, defines the bounds of sets, makes symbols local that are not exported, and turns
/// the names of dependencies into a dynamic section.
fn finish(linked: &[u8], exports: &BTreeSet<String>) -> Result<Vec<u8>, LinkError> {
    let mut builder = Builder::read(linked).map_err(LinkError::Finish)?;
    let mut depends = Vec::new();
    for section in &mut builder.sections {
        let name = section.name.to_string();
        section.delete |= name.starts_with(".debug_") || name.starts_with(".rela.debug_");
        if name == DEPENDS {
            section.delete = true;
            depends = contents(section).to_vec();
        }
        if section.is_alloc() {
            // The linker has merged the sections, so merge flags no longer apply. It has also kept the sets, so the
            // flag SHF_GNU_RETAIN is no longer needed.
            section.sh_flags &= LOADED;
            section.sh_entsize = 0;
        }
    }
    define_bounds(&mut builder);
    settle_symbols(&mut builder, exports);
    builder.delete_orphans();
    if !depends.is_empty() {
        add_dynamic_section(&mut builder, &depends);
    }
    lay_out(&mut builder);
    builder.header.os_abi = elf::ELFOSABI_SOLARIS;
    let mut image = Vec::new();
    builder.write(&mut image).map_err(LinkError::Finish)?;
    Ok(image)
}

fn contents<'s>(section: &'s Section<'_>) -> &'s [u8] {
    match &section.data {
        SectionData::Data(data) => data,
        _ => &[],
    }
}

/// Defines `__start_SET` and `__stop_SET`. If the set does not exist, weak symbols become 0, as with every linker;
/// other symbols stay undefined.
fn define_bounds(builder: &mut Builder<'_>) {
    let sets: BTreeMap<String, (SectionId, u64)> = builder
        .sections
        .iter()
        .filter(|section| section.is_alloc() && super::is_set(&section.name.to_string()))
        .map(|section| (section.name.to_string(), (section.id(), builder.section_size(section))))
        .collect();
    for symbol in &mut builder.symbols {
        let name = symbol.name.to_string();
        let (set, stop) = match (name.strip_prefix("__start_"), name.strip_prefix("__stop_")) {
            (Some(set), _) => (set, false),
            (None, Some(set)) => (set, true),
            (None, None) => continue,
        };
        if symbol.section.is_some() || symbol.st_shndx != elf::SHN_UNDEF {
            continue;
        }
        match sets.get(set) {
            Some(&(section, size)) => {
                symbol.section = Some(section);
                symbol.st_value = if stop { size } else { 0 };
            }
            None if symbol.st_bind() == elf::STB_WEAK => symbol.st_shndx = elf::SHN_ABS,
            None => {}
        }
    }
}

/// Makes symbols local that are defined and not exported; drops local symbols that are neither functions nor used:
/// krtld numbers symbols in 16 bits, in older releases.
fn settle_symbols(builder: &mut Builder<'_>, exports: &BTreeSet<String>) {
    let relocations = builder.sections.iter().filter_map(|section| match &section.data {
        SectionData::Relocation(relocations) if !section.delete => Some(relocations),
        _ => None,
    });
    let used: HashSet<usize> = relocations
        .flatten()
        .filter_map(|relocation| relocation.symbol.map(|symbol| symbol.index()))
        .collect();
    for symbol in &mut builder.symbols {
        let defined = symbol.section.is_some() || symbol.st_shndx == elf::SHN_ABS;
        let name = symbol.name.to_string();
        if defined && !exports.contains(&name) && !ENTRY_POINTS.contains(&&*name) {
            symbol.set_st_info(elf::STB_LOCAL, symbol.st_type());
        }
        symbol.st_other = elf::SymbolOther(0);
        let local = symbol.st_bind() == elf::STB_LOCAL;
        symbol.delete |= symbol.st_type() == elf::STT_FILE
            || local && symbol.st_type() != elf::STT_FUNC && !used.contains(&symbol.id().index());
    }
}

/// Adds the sections `.dynamic` and `.dynstr`. They are not loaded: krtld reads them from the file.
fn add_dynamic_section(builder: &mut Builder<'_>, depends: &[u8]) {
    let mut strings = vec![0];
    let mut dynamic = Vec::new();
    let mut entry = |tag: elf::DynamicTag, value: u64| {
        dynamic.extend([tag.0.cast_unsigned(), value].map(u64::to_le_bytes).concat());
    };
    for name in depends.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        entry(elf::DT_NEEDED, strings.len() as u64);
        strings.extend([name, &[0]].concat());
    }
    entry(elf::DT_NULL, 0);
    let section = builder.sections.add();
    section.name = ".dynstr".into();
    section.sh_type = elf::SHT_STRTAB;
    section.sh_addralign = 1;
    section.data = SectionData::Data(strings.into());
    let strings = section.id();
    let section = builder.sections.add();
    section.name = ".dynamic".into();
    section.sh_type = elf::SHT_DYNAMIC;
    section.sh_addralign = 8;
    section.sh_entsize = 16;
    section.sh_link_section = Some(strings);
    section.data = SectionData::Data(dynamic.into());
}

/// Assigns to the loaded sections their offsets in the file.
fn lay_out(builder: &mut Builder<'_>) {
    let mut offset = builder.file_header_size();
    for section in &mut builder.sections {
        if section.delete || !section.is_alloc() {
            continue;
        }
        offset = offset.next_multiple_of(section.sh_addralign.max(1));
        section.sh_offset = offset;
        offset += contents(section).len() as u64;
    }
}

#[cfg(test)]
#[path = "../../tests/unit/link/illumos.rs"]
mod tests;
