//! The link of a FreeBSD module: `ld -r` by a generated linker script, then what `ld -r` cannot do.
//!
//! The kernel's loader finds a set by the *first* section of its name, so every set has to become one
//! output section, whatever the flags of its pieces; and it maps sections in file order, page by
//! page, so sections of one protection have to stand together, each group on a page of its own
//! (`sys/kern/link_elf_obj.c`, `sys/conf/ldscript.kmod.amd64`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use object::build::elf::{Builder, SectionData};
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use crate::process::{self, ProcessError};
use crate::toolchain::Lld;
use crate::workspace::Arch;

const LIMIT: Duration = Duration::from_secs(300);
const PAGE: u64 = 4096;
/// The section flags that mean something to the loader.
const LOADED: elf::SectionFlags =
    elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0 | elf::SHF_EXECINSTR.0 | elf::SHF_TLS.0);

/// Why a module could not be linked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A file could not be read or written.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The archive or an object in it is damaged.
    #[error("{what}: {source}")]
    Object {
        /// The archive or its member.
        what: String,
        /// What is wrong.
        source: object::Error,
    },
    /// lld failed.
    #[error(transparent)]
    Lld(#[from] ProcessError),
    /// What lld wrote could not be finished.
    #[error("finishing the linked file: {0}")]
    Finish(object::build::Error),
}

/// Links everything in a static library that is reachable from its sets. Intermediate files go to
/// `folder`. Returns the module's bytes.
///
/// # Errors
/// The library cannot be read or the linker refuses it.
pub fn module(lld: &Lld, arch: Arch, library: &Path, folder: &Path) -> Result<Vec<u8>, LinkError> {
    let name = library.file_stem().unwrap_or_default().to_string_lossy();
    let archive = read(library)?;
    let script = folder.join(format!("{name}.ld"));
    write(&script, script_for(&sets(&archive, &library.to_string_lossy())?).as_bytes())?;
    let full = folder.join(format!("{name}.full"));
    let mut command = lld.command();
    command.args(["-m", arch.lld_emulation(), "-r", "--gc-sections", "-T"]).arg(&script);
    // Sets are only found in objects that are there: all of them, and what is dead is dropped.
    command.arg("--whole-archive").arg(library).arg("-o").arg(&full);
    process::run(&mut command, LIMIT)?;
    finish(&read(&full)?)
}

fn read(file: &Path) -> Result<Vec<u8>, LinkError> {
    std::fs::read(file).map_err(|source| file_error(file, source))
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), LinkError> {
    std::fs::write(file, bytes).map_err(|source| file_error(file, source))
}

fn file_error(file: &Path, source: std::io::Error) -> LinkError {
    LinkError::File { file: file.display().to_string(), source }
}

/// Names of all sets in an archive's objects, and whether any piece of the set is writable.
fn sets(archive: &[u8], name: &str) -> Result<BTreeMap<String, bool>, LinkError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source| LinkError::Object { what, source }
    };
    let mut sets = BTreeMap::new();
    let file = ArchiveFile::parse(archive).map_err(failed(name))?;
    for member in file.members() {
        let member = member.map_err(failed(name))?;
        let what = format!("{name}({})", String::from_utf8_lossy(member.name()));
        let data = member.data(archive).map_err(failed(&what))?;
        if !data.starts_with(&elf::ELFMAG) {
            continue;
        }
        let header = elf::FileHeader64::<Endianness>::parse(data).map_err(failed(&what))?;
        let endian = header.endian().map_err(failed(&what))?;
        let sections = header.sections(endian, data).map_err(failed(&what))?;
        for section in sections.iter() {
            let flags = section.sh_flags(endian);
            let name = sections.section_name(endian, section).map_err(failed(&what))?;
            let name = String::from_utf8_lossy(name);
            if flags.contains(elf::SHF_ALLOC) && is_set(&name) {
                let writable = sets.entry(name.into_owned()).or_insert(false);
                *writable |= flags.contains(elf::SHF_WRITE);
            }
        }
    }
    Ok(sets)
}

/// Whether a section is a set: its name is a C identifier, so that `__start_` and `__stop_` symbols
/// for it can be written in C, which is the linkers' rule.
pub(crate) fn is_set(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The script: code, read-only data, writable data, in this order; each set one output section that
/// is a root of the garbage collection.
fn script_for(sets: &BTreeMap<String, bool>) -> String {
    let mut script = String::from("SECTIONS\n{\n");
    let place = |script: &mut String, wanted: bool| {
        for (name, _) in sets.iter().filter(|&(_, &writable)| writable == wanted) {
            writeln!(script, "  {name} : {{ KEEP(*({name})) }}").expect("strings take writes");
        }
    };
    script.push_str("  .text : { *(.text .text.*) }\n");
    script.push_str("  .rodata : { *(.rodata .rodata.*) }\n");
    place(&mut script, false);
    script.push_str("  .data : { *(.data .data.*) }\n");
    place(&mut script, true);
    script.push_str("  .bss : { *(.bss .bss.* COMMON) }\n");
    // Nothing in the kernel unwinds by tables.
    script.push_str("  /DISCARD/ : { *(.eh_frame .comment .llvm_addrsig .note.GNU-stack) }\n}\n");
    script
}

/// Drops debugging information, makes every symbol that is defined local (the kernel would let other
/// modules bind to it), and puts every group of sections of one protection on a page of its own.
fn finish(linked: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut builder = Builder::read(linked).map_err(LinkError::Finish)?;
    for section in &mut builder.sections {
        let name = section.name.to_string();
        section.delete |= name.starts_with(".debug_") || name.starts_with(".rela.debug_");
        if section.is_alloc() {
            // Merging is done; the flags would be wrong for a section that mixes its inputs. That
            // sets are kept is done too, and the flag for it is GNU's, not FreeBSD's.
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

/// Gives the first section of each protection the alignment of a page, and all their place in the
/// file.
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
mod tests {
    use super::*;

    #[test]
    fn sets_are_c_identifiers() {
        for name in ["set_sysinit_set", "linkme_SDT_PROBES", "sdt_sites", "_x9"] {
            assert!(is_set(name), "{name}");
        }
        for name in [".text", "", "9x", "a.b", ".rela.set_x"] {
            assert!(!is_set(name), "{name}");
        }
    }

    #[test]
    fn every_set_is_kept_among_its_like() {
        let sets = BTreeMap::from([("set_ro".to_owned(), false), ("set_rw".to_owned(), true)]);
        let script = script_for(&sets);
        let at = |what: &str| script.find(what).unwrap_or_else(|| panic!("no {what} in {script}"));
        assert!(at("  .rodata ") < at("  set_ro : { KEEP(*(set_ro)) }"));
        assert!(at("  set_ro ") < at("  .data "));
        assert!(at("  .data ") < at("  set_rw : { KEEP(*(set_rw)) }"));
        assert!(at("  set_rw ") < at("  .bss "));
    }
}
