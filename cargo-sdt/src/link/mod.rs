//! The link of a kernel module: everything in a static library that is reachable from its sets.
//!
//! On each system, each set becomes one section, and other modules cannot use the module's symbols, except those that
//! it exports on illumos.

pub mod freebsd;
pub mod illumos;
mod names;
mod seal;

pub use names::make_readable;
pub(crate) use seal::Seal;
pub use seal::{SEAL, seal};

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use crate::process::ProcessError;

const LIMIT: Duration = Duration::from_secs(300);

/// Names of sets, and whether any piece of the set is writable.
type Sets = BTreeMap<String, bool>;

/// A module could not be linked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A file could not be read or written.
    #[error("{file}: {source}")]
    File { file: String, source: std::io::Error },
    /// The archive or an object in it is damaged.
    #[error("{what}: {source}")]
    Object { what: String, source: object::Error },
    /// lld failed.
    #[error(transparent)]
    Lld(#[from] ProcessError),
    /// The output of lld could not be finished.
    #[error("finishing the linked file: {0}")]
    Finish(object::build::Error),
}

fn read(file: &Path) -> Result<Vec<u8>, LinkError> {
    std::fs::read(file).map_err(|source| file_error(file, source))
}

fn write(file: &Path, text: &str) -> Result<(), LinkError> {
    std::fs::write(file, text).map_err(|source| file_error(file, source))
}

fn file_error(file: &Path, source: std::io::Error) -> LinkError {
    LinkError::File { file: file.display().to_string(), source }
}

/// Names of all sets in an archive's objects, and whether any piece of the set is writable.
fn sets(archive: &[u8], name: &str) -> Result<Sets, LinkError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source| LinkError::Object { what, source }
    };
    let mut sets = Sets::new();
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

/// Returns whether a section is a set, by the rule of linkers: its name is a C identifier, so that C code can refer to
/// its bounds by `__start_` and `__stop_`.
pub(crate) fn is_set(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Writes the sets that are writable, or those that are not, to a linker script. Each set becomes one output section,
/// which is a root of the garbage collection.
fn place_sets(script: &mut String, sets: &Sets, writable: bool) {
    for (name, _) in sets.iter().filter(|&(_, &of)| of == writable) {
        // The elements contain pointers, so they are aligned to 8 bytes. C's tracepoints do not declare this alignment.
        writeln!(script, "  {name} : ALIGN(8) {{ KEEP(*({name})) }}").expect("strings take writes");
    }
}

#[cfg(test)]
#[path = "../../tests/unit/link/sets.rs"]
mod tests;
