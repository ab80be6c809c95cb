//! FreeBSD's modules: the rules of its loaders (`sys/kern/link_elf_obj.c`, `sys/kern/link_elf.c`), of the linker sets, and of
//! the records in them.

mod exports;
mod functions;
mod metadata;
mod native;
mod own;
mod sets;
mod shared;
mod sites;
mod sysinits;

use super::elf::Elf;
use super::functions::Functions;
use super::kernel::Against;
use super::relocations;
use super::rules::Rule;
use super::summary::FreeBsdSummary;
use crate::platform::{FreeBsd, Generation, Route};
use metadata::Metadata;
use own::Count;

/// Checks a module, whose metadata contain its release and its route. The summary counts only if there are no errors.
pub(super) fn check(
    elf: &Elf<'_>,
    functions: &Functions<'_>,
    against: Against<'_>,
) -> FreeBsdSummary {
    shared::check(elf);
    let metadata = metadata::check(elf, functions);
    let release = metadata.release.unwrap_or_else(|| looks_like(elf));
    relocations::check(elf, release, functions);
    functions::check_constructors(elf, functions);
    sets::check(elf);
    sysinits::check(elf, release, &metadata, functions);
    let sites = sites::check(elf, functions);
    let own = own::check(elf);
    let kernels = native::check(elf, release, &metadata, own);
    exports::check(elf, release, &metadata, against.kernel);
    let routes = [(Route::Native, kernels), (Route::Provider, own)];
    let route = routes.iter().find(|(_, count)| *count != Count::default());
    let route = route.map(|&(route, _)| route);
    if let (Some(file), Some(route)) = (against.file, route) {
        file_name(elf, file, route, &metadata);
    }
    FreeBsdSummary {
        release,
        says_release: metadata.release.is_some(),
        modules: metadata.modules,
        route,
        depends: metadata.depends,
        providers: own.providers + kernels.providers,
        probes: own.probes + kernels.probes,
        sites,
        size: elf.size(),
        warnings: Vec::new(),
    }
}

/// Returns the newest release for which a module without a named release may have been built, according to the records
/// that differ between releases.
fn looks_like(elf: &Elf<'_>) -> FreeBsd {
    let newest = FreeBsd::default();
    let releases =
        (10..=newest.major()).rev().filter_map(|major| FreeBsd::major_release(major).ok());
    let mut releases = releases.filter(|&release| {
        native::generation(elf).is_none_or(|generation| release.generation() == generation)
            && sysinits::size(elf).is_none_or(|size| release.sysinit_size() == size)
    });
    releases.next().unwrap_or_else(|| match native::generation(elf) {
        Some(Generation::Tested) => FreeBsd::major_release(14).unwrap_or(newest),
        Some(Generation::Patched) | None => newest,
    })
}

/// Checks the file's name, by which the kernel lists the file's probes.
fn file_name(elf: &Elf<'_>, file: &str, route: Route, metadata: &Metadata) {
    let name = file.strip_suffix(".ko").unwrap_or(file);
    if !metadata.modules.is_empty() && !metadata.is(name) {
        let rule = match route {
            Route::Native => Rule::FileName,
            Route::Provider => Rule::FileNameOfProvider,
        };
        elf.findings.file(rule, &[&file, &metadata.modules.join(", ")]);
    }
}
