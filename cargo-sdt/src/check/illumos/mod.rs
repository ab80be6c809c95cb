//! illumos's modules: the rules of krtld and of its sdt.
//!
//! krtld trusts a module. At a call of a probe, it overwrites the five bytes around the relocation, whatever they are.
//! For a relocation through the global offset table, it writes an address where the code expects a distance
//! (`usr/src/uts/intel/amd64/krtld/kobj_reloc.c`, `doreloc.c`). Without this check, the defect appears only when the
//! kernel executes that code.

mod depends;
mod described;
mod enabled;
mod exports;
// The module of sdt-macros, by a symbolic link, because a proc-macro crate exports only macros, and a package must
// contain all its files.
mod krtld;
mod probes;

use sdt_core::{Probe, Provider};

use super::elf::{Elf, Section};
use super::functions::Functions;
use super::kernel::Kernel;
use super::names::SITES;
use super::relocations;
use super::summary::IllumosSummary;
use crate::platform::FreeBsd;
pub use exports::DRIVER;
pub(super) use probes::is_probe;

/// Returns whether illumos's sdt has a provider of this name, other than `sdt`.
pub(crate) fn has_provider(name: &str) -> bool {
    krtld::PROVIDERS.iter().any(|(provider, _)| *provider == name)
}

pub(super) fn check(elf: &Elf<'_>, functions: &Functions<'_>, kernel: &Kernel) -> IllumosSummary {
    relocations::check(elf, FreeBsd::default(), functions);
    enabled::check(elf);
    let (probes, sites) = probes::check(elf);
    described::check(elf);
    let depends = depends::check(elf);
    exports::check(elf, &depends, kernel);
    let records = |set, each| {
        let sections: u64 = elf.named(set).map(|section: &Section<'_>| section.size / each).sum();
        sections
    };
    let own = [
        records("set_linkme_SDT_PROVIDERS", size_of::<Provider>() as u64),
        records("set_linkme_SDT_PROBES", size_of::<Probe>() as u64),
        records(SITES, 32),
    ];
    IllumosSummary { depends, probes, sites, own, size: elf.size(), warnings: Vec::new() }
}
