//! The check of modules for illumos: would krtld take this one, and does it do with its probes what is meant?
//!
//! krtld trusts a module. What it does with a probe is to overwrite five bytes around the relocation of a
//! call, whatever these bytes are, and what it does with a relocation through the global offset table is
//! to write an address where the distance to one belongs (`usr/src/uts/intel/amd64/krtld/kobj_reloc.c`,
//! `doreloc.c`). Nothing says so before the kernel runs into it. So it is checked here.

mod depends;
mod described;
mod enabled;
mod file;
// That of sdt-macros, by a link: a macro's crate exports nothing else, and a package is whole.
mod krtld;
mod probes;
mod problem;
mod relocations;
mod sections;
mod symbols;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use object::elf;

use super::fbt;
use super::finding::{Finding, Findings};
use super::{Kernel, code, layout};
use super::{count, finding};
use crate::arch::Arch;
use crate::platform::Route;
use file::File;
pub use problem::Problem;
use sdt_core::{Probe, Provider};

/// Whether illumos's sdt has a provider of this name besides `sdt`.
pub fn has_provider(name: &str) -> bool {
    krtld::PROVIDERS.iter().any(|(provider, _)| *provider == name)
}

/// What a good module consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What it depends on.
    pub depends: Vec<String>,
    /// Its probes, as DTrace lists them: `provider:::name`.
    pub probes: BTreeSet<String>,
    /// Calls that fire them.
    pub sites: usize,
    /// Records of a provider of the module's own: of providers, probes and sites.
    pub own: [u64; 3],
    /// Bytes in memory, without padding.
    pub size: u64,
    /// What is worth a look, though it can be loaded.
    pub warnings: Vec<Finding>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: Vec<&str>, none: &str| {
            if names.is_empty() { none.to_owned() } else { names.join(", ") }
        };
        let depends = list(self.depends.iter().map(String::as_str).collect(), "nothing");
        let (own, native) = (self.own != [0; 3], self.sites != 0);
        let route = match (native, own) {
            (true, _) => Some(Route::Native),
            (false, true) => Some(Route::Provider),
            (false, false) => None,
        };
        let route = route.map_or_else(String::new, |route| format!(", route {route}"));
        write!(f, "for illumos{route}, depends on {depends}; ")?;
        if own {
            let [providers, probes, sites] = self.own;
            let (providers, sites) = (count(providers, "provider"), count(sites, "site"));
            write!(f, "{providers}, {}, {sites}; ", count(probes, "probe record"))?;
        }
        if native || !own {
            let probes = list(self.probes.iter().map(String::as_str).collect(), "no probe");
            write!(f, "{}: {probes}; ", count(self.sites as u64, "site"))?;
        }
        write!(f, "{} bytes", self.size)
    }
}

/// Checks a module, of whose kernel nothing is known.
///
/// # Errors
/// Everything that was found, if an error is among it.
pub fn module(bytes: &[u8]) -> Result<Summary, Vec<Finding>> {
    module_against(bytes, &Kernel::default())
}

/// Checks a module for a kernel.
///
/// # Errors
/// As of [`module`].
pub fn module_against(bytes: &[u8], kernel: &Kernel) -> Result<Summary, Vec<Finding>> {
    let mut findings = Findings::of(bytes)?;
    let Some(file) = File::parse(bytes, &mut findings) else { return Err(findings.0) };
    layout::check(bytes, &mut findings);
    sections::check(&file, &mut findings);
    let functions = file.functions();
    findings.overlaps(&functions);
    relocations::check(&file, &functions, &mut findings);
    enabled::check(&file, &mut findings);
    let undefined = file.symbols.iter().filter(|symbol| symbol.is_undefined());
    let saver = code::saver(undefined.map(|symbol| &*symbol.name));
    for section in file.sections.iter().filter(|section| section.is_loaded() && section.is_code()) {
        code::x86_64(&section.name, section.data, saver, &mut findings);
    }
    let (probes, sites) = probes::check(&file, &mut findings);
    described::check(&file, &mut findings);
    let depends = depends::check(&file, &mut findings);
    symbols::check(&file, &depends, kernel, &mut findings);
    fbt_entries(&file, &mut findings);
    if !findings.has_errors() {
        relocations::fields(&file, &functions, &mut findings);
    }
    let warnings = findings.done()?;
    let loaded = file.sections.iter().filter(|section| section.is_loaded());
    let size = loaded.map(|section| section.size).fold(0, u64::saturating_add);
    let own = own(&file);
    Ok(Summary { depends, probes, sites, own, size, warnings })
}

/// How many records of a provider of its own a module has, by the sizes of their sets.
fn own(file: &File<'_>) -> [u64; 3] {
    let sets = [
        ("set_linkme_SDT_PROVIDERS", size_of::<Provider>() as u64),
        ("set_linkme_SDT_PROBES", size_of::<Probe>() as u64),
        (relocations::SITES, 32),
    ];
    sets.map(|(set, each)| {
        let sections = file.sections.iter().filter(|of| of.is_loaded() && of.name == set);
        sections.map(|section| section.size / each).sum()
    })
}

/// Checks the functions that fbt makes probes of: all but weak ones.
fn fbt_entries(file: &File<'_>, findings: &mut Findings) {
    let known =
        |symbol: &&file::Symbol| symbol.kind == elf::STT_FUNC && symbol.binding != elf::STB_WEAK;
    for symbol in file.symbols.iter().filter(known) {
        let section = file.sections.get(usize::from(symbol.section.0));
        let code = section.and_then(|section| section.bytes(symbol.value, symbol.size));
        if let Some(code) = code {
            fbt::check(Arch::X86_64, &symbol.name, code, symbol.value, findings);
        }
    }
}

impl Findings {
    fn illumos(&mut self, place: finding::Place, problem: Problem) {
        self.0.push(Finding { place, problem: problem.into() });
    }
}
