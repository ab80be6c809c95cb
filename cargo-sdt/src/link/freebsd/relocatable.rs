//! ET_REL, for amd64: `ld -r` with a generated linker script, followed by steps that `ld -r` does not support.
//!
//! The kernel's loader finds a set by the *first* section of its name, so each set must become one output section,
//! whatever the flags of its pieces. The loader maps sections in file order, page by page, so sections with the same
//! protection must be adjacent, and each group must begin on a new page (`sys/kern/link_elf_obj.c`,
//! `sys/conf/ldscript.kmod.amd64`).

use std::path::Path;

use object::build::elf::{Builder, SectionData};
use object::elf;

use super::PAGE;
use crate::arch::Arch;
use crate::link::{LIMIT, LinkError, Sets, place_sets, read, write};
use crate::platform::FreeBsd;
use crate::process;
use crate::toolchain::Lld;

/// The section flags that the loader uses.
const LOADED: elf::SectionFlags =
    elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0 | elf::SHF_EXECINSTR.0 | elf::SHF_TLS.0);

/// Links a library into a module, by way of files that start with `stem`.
pub(super) fn link(
    lld: &Lld,
    arch: Arch,
    release: FreeBsd,
    library: &Path,
    sets: &Sets,
    stem: &Path,
) -> Result<Vec<u8>, LinkError> {
    let (script, full) = (stem.with_extension("ld"), stem.with_extension("full"));
    write(&script, &script_for(sets))?;
    let mut command = lld.command();
    command.args(["-m", arch.lld_emulation(), "-r", "--gc-sections"]);
    // One copy of every group is kept, and its pieces are placed in the sections of their names.
    command.arg("--force-group-allocation").arg("-T").arg(&script);
    command.arg("--whole-archive").arg(library).arg("-o").arg(&full);
    process::run(&mut command, LIMIT)?;
    finish(&read(&full)?, release)
}

/// Returns the linker script: code, read-only data, writable data, in this order. Each set becomes one output section that is a
/// root of the garbage collection.
fn script_for(sets: &Sets) -> String {
    let mut script = String::from("SECTIONS\n{\n");
    script.push_str("  .text : { *(.text .text.*) }\n");
    script.push_str("  .rodata : { *(.rodata .rodata.*) }\n");
    place_sets(&mut script, sets, false);
    script.push_str("  .data : { *(.data .data.*) }\n");
    place_sets(&mut script, sets, true);
    script.push_str("  .bss : { *(.bss .bss.* COMMON) }\n");
    // The kernel does not use unwind tables.
    script.push_str("  /DISCARD/ : { *(.eh_frame .comment .llvm_addrsig .note.GNU-stack) }\n}\n");
    script
}

/// Returns whether the kernel does not need a section: debugging information, or the section with the types of
/// arguments of open providers' probes, which only the linker needs.
fn is_dropped(section: &str) -> bool {
    let name = section.strip_prefix(".rela").unwrap_or(section);
    name.starts_with(".debug_") || name == ".sdt_arg_types"
}

/// Removes unused sections, makes every defined symbol local (the kernel would let other modules bind to it), and
/// places every group of sections with one protection on separate pages.
fn finish(linked: &[u8], release: FreeBsd) -> Result<Vec<u8>, LinkError> {
    let mut builder = Builder::read(linked).map_err(LinkError::Finish)?;
    for section in &mut builder.sections {
        section.delete |= is_dropped(&section.name.to_string());
        if let SectionData::Relocation(relocations) = &mut section.data
            && !release.takes_plt32()
        {
            // PC32 computes the same address as PLT32, without a procedure linkage table.
            for relocation in relocations.iter_mut().filter(|of| of.r_type == elf::R_X86_64_PLT32) {
                relocation.r_type = elf::R_X86_64_PC32;
            }
        }
        if section.is_alloc() {
            // The linker has merged the sections, so merge flags no longer apply. It has also kept the sets, so the
            // flag SHF_GNU_RETAIN, which FreeBSD does not know, is no longer needed.
            section.sh_flags &= LOADED;
            section.sh_entsize = 0;
        }
    }
    for symbol in &mut builder.symbols {
        if symbol.st_type() == elf::STT_FILE {
            symbol.delete = true;
        } else if symbol.section.is_some() && symbol.st_bind() != elf::STB_LOCAL {
            symbol.set_st_info(elf::STB_LOCAL, symbol.st_type());
            symbol.st_other = elf::SymbolOther(0);
        }
    }
    builder.delete_orphans();
    lay_out(&mut builder);
    builder.header.os_abi = elf::ELFOSABI_FREEBSD;
    let mut image = Vec::new();
    builder.write(&mut image).map_err(LinkError::Finish)?;
    Ok(image)
}

/// Aligns the first section of each protection to a page, and assigns to all loaded sections their offsets in the file.
fn lay_out(builder: &mut Builder<'_>) {
    let mut offset = builder.file_header_size();
    let mut last = None;
    for section in &mut builder.sections {
        if section.delete || !section.is_alloc() {
            continue;
        }
        let protection = section.sh_flags & (elf::SHF_WRITE | elf::SHF_EXECINSTR);
        if last != Some(protection) {
            section.sh_addralign = section.sh_addralign.max(PAGE);
        }
        last = Some(protection);
        offset = offset.next_multiple_of(section.sh_addralign.max(1));
        section.sh_offset = offset;
        if let SectionData::Data(data) = &section.data {
            offset += data.len() as u64;
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/link/freebsd/relocatable.rs"]
mod tests;
