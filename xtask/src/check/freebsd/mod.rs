//! FreeBSD's modules: would its loader take them, and do their probes hold together?
//!
//! The rules of the loader (`sys/kern/link_elf_obj.c`, `sys/kern/link_elf.c`), of the linker sets and of the
//! records in them.

mod layout;
mod metadata;
mod names;
mod native;
mod records;
mod relocations;
mod segments;
mod sets;
mod sites;
mod symbols;
mod sysinits;

use records::Count;

use super::Summary;
use super::finding::Findings;
use super::image::Image;
use crate::platform::Route;

/// Checks a module; for which release and by which route, it says itself. What is said of its contents counts
/// only if nothing was found.
pub(super) fn check(image: &Image<'_>, file: &[u8], findings: &mut Findings) -> Summary {
    segments::check(image, file, findings);
    layout::check(image, findings);
    let metadata = metadata::check(image, findings);
    // One that does not say has been reported.
    let release = metadata.kernel.unwrap_or_default();
    relocations::check(image, release, findings);
    sets::check(image, findings);
    sysinits::check(image, release, findings);
    let sites = sites::check(image, findings);
    let own = records::check(image, findings);
    let kernels = native::check(image, release, &metadata, own, findings);
    symbols::check(image, release, &metadata, findings);
    let routes = [(Route::Native, kernels), (Route::Provider, own)];
    let route = routes.iter().find(|(_, count)| *count != Count::default());
    Summary {
        modules: metadata.modules,
        release,
        route: route.map(|&(route, _)| route),
        depends: metadata.depends,
        providers: own.providers + kernels.providers,
        probes: own.probes + kernels.probes,
        sites,
        size: image.loaded().map(|section| section.size).fold(0, u64::saturating_add),
    }
}
