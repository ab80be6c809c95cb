//! FreeBSD's modules, of both kinds that its loaders take.

mod relocatable;
mod shared;

use std::path::Path;

use super::{LinkError, read, sets};
use crate::arch::{Arch, ModuleKind};
use crate::platform::FreeBsd;
use crate::toolchain::Lld;

const PAGE: u64 = 4096;

/// Links everything in a static library that is reachable from its sets. Intermediate files go to
/// `folder`. Returns the module's bytes.
///
/// # Errors
/// The library cannot be read or the linker refuses it.
pub fn module(
    lld: &Lld,
    arch: Arch,
    release: FreeBsd,
    library: &Path,
    folder: &Path,
) -> Result<Vec<u8>, LinkError> {
    let sets = sets(&read(library)?, &library.to_string_lossy())?;
    let stem = folder.join(library.file_stem().unwrap_or_default());
    // A set consists of the pieces of all objects, so both link all objects, and drop dead code.
    match arch.module_kind() {
        ModuleKind::Relocatable => relocatable::link(lld, arch, release, library, &sets, &stem),
        ModuleKind::Shared => shared::link(lld, arch, library, &sets, &stem),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/link/module.rs"]
mod tests;
