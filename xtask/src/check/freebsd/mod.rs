//! FreeBSD's modules: would its loader take them, and do their probes hold together?
//!
//! The rules of the loader (`sys/kern/link_elf_obj.c`, `sys/kern/link_elf.c`), of the linker sets and of the
//! records in them.

mod layout;
mod metadata;
mod records;
mod relocations;
mod segments;
mod sets;
mod sites;
mod symbols;

use super::Summary;
use super::finding::Findings;
use super::image::Image;

/// Checks a module. What is said of its contents counts only if nothing was found.
pub(super) fn check(image: &Image<'_>, file: &[u8], findings: &mut Findings) -> Summary {
    segments::check(image, file, findings);
    layout::check(image, findings);
    relocations::check(image, findings);
    sets::check(image, findings);
    let sites = sites::check(image, findings);
    let records = records::check(image, findings);
    symbols::check(image, findings);
    let metadata = metadata::check(image, findings);
    Summary {
        modules: metadata.modules,
        depends: metadata.depends,
        providers: records.providers,
        probes: records.probes,
        sites,
        size: image.loaded().map(|section| section.size).sum(),
    }
}
