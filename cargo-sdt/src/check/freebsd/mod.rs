//! FreeBSD's modules: would its loader take them, and do their probes hold together?
//!
//! The rules of the loader (`sys/kern/link_elf_obj.c`, `sys/kern/link_elf.c`), of the linker sets and of the
//! records in them.

mod constructors;
mod dynamic;
mod layout;
mod metadata;
mod names;
mod native;
mod pointers;
mod problem;
mod records;
mod relocations;
mod segments;
mod sets;
mod sites;
mod symbols;
mod sysctls;
mod sysinits;
mod undefined;

pub use problem::Problem;
use records::Count;

use super::finding::Findings;
use super::image::Image;
use super::{Against, Summary};
use crate::platform::{FreeBsd, Generation, Route};
use metadata::Metadata;

/// Checks a module; for which release and by which route, it says itself. What is said of its contents counts
/// only if nothing was found.
pub(super) fn check(
    image: &Image<'_>,
    file: &[u8],
    against: Against<'_>,
    findings: &mut Findings,
) -> Summary {
    segments::check(image, file, findings);
    dynamic::check(image, findings);
    layout::check(image, file, findings);
    let functions = image.functions();
    let metadata = metadata::check(image, &functions, findings);
    let release = metadata.release.unwrap_or_else(|| looks_like(image));
    relocations::check(image, release, &functions, findings);
    pointers::check(image, &functions, findings);
    constructors::check(image, &functions, findings);
    sets::check(image, findings);
    sysinits::check(image, release, &metadata, &functions, findings);
    let sites = sites::check(image, &functions, findings);
    let own = records::check(image, findings);
    records::without_sites(image, findings);
    let kernels = native::check(image, release, &metadata, own, findings);
    symbols::check(image, &functions, findings);
    undefined::check(image, release, &metadata, against.kernel, findings);
    if !findings.has_errors() {
        relocations::fields(image, &functions, findings);
    }
    let routes = [(Route::Native, kernels), (Route::Provider, own)];
    let route = routes.iter().find(|(_, count)| *count != Count::default());
    let route = route.map(|&(route, _)| route);
    if let (Some(file), Some(route)) = (against.file, route) {
        file_name(file, route, &metadata, findings);
    }
    Summary {
        release,
        says_release: metadata.release.is_some(),
        modules: metadata.modules,
        route,
        depends: metadata.depends,
        providers: own.providers + kernels.providers,
        probes: own.probes + kernels.probes,
        sites,
        size: image.loaded().map(|section| section.size).fold(0, u64::saturating_add),
        warnings: Vec::new(),
    }
}

/// The newest release that a module can be for that says nothing of it, by the records of which the releases have
/// different ones.
fn looks_like(image: &Image<'_>) -> FreeBsd {
    let newest = FreeBsd::default();
    let releases =
        (10..=newest.major()).rev().filter_map(|major| FreeBsd::major_release(major).ok());
    let mut releases = releases.filter(|&release| {
        native::generation(image).is_none_or(|generation| release.generation() == generation)
            && sysinits::size(image).is_none_or(|size| release.sysinit_size() == size)
    });
    releases.next().unwrap_or_else(|| match native::generation(image) {
        Some(Generation::Tested) => FreeBsd::major_release(14).unwrap_or(newest),
        Some(Generation::Patched) | None => newest,
    })
}

/// The kernel knows a file's probes by the file's name.
fn file_name(file: &str, route: Route, metadata: &Metadata, findings: &mut Findings) {
    let name = file.strip_suffix(".ko").unwrap_or(file);
    if !metadata.modules.is_empty() && !metadata.is(name) {
        findings.file(Problem::FileName {
            file: file.to_owned(),
            modules: metadata.modules.join(", "),
            own: route == Route::Provider,
        });
    }
}
