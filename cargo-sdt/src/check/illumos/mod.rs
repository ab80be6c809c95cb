//! illumos's modules: the rules of krtld and of its sdt.
//!
//! krtld trusts a module. For a probe, it overwrites five bytes around the relocation of a call, whatever these bytes are; for a
//! relocation through the global offset table, it writes an address where the distance to one belongs
//! (`usr/src/uts/intel/amd64/krtld/kobj_reloc.c`, `doreloc.c`). Without a check, the kernel finds out when it runs that code.

mod depends;
mod described;
mod enabled;
mod exports;
// That of sdt-macros, by a link: a macro's crate exports nothing else, and a package is whole.
mod krtld;
mod probes;

use std::collections::BTreeSet;
use std::fmt;

use sdt_core::{Probe, Provider};

use super::elf::{Elf, Section};
use super::finding::Finding;
use super::functions::Functions;
use super::kernel::Kernel;
use super::{Against, SITES, count, relocations};
use crate::platform::{FreeBsd, Os, Route};
pub use exports::DRIVER;
pub(super) use probes::is_probe;

/// Returns whether illumos's sdt has a provider of this name besides `sdt`.
pub(crate) fn has_provider(name: &str) -> bool {
    krtld::PROVIDERS.iter().any(|(provider, _)| *provider == name)
}

/// The contents of a good module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The modules that it depends on.
    pub depends: Vec<String>,
    /// Its probes, as DTrace lists them: `provider:::name`.
    pub probes: BTreeSet<String>,
    /// Calls that fire them.
    pub sites: usize,
    /// Records of a provider of the module's own: of providers, probes and sites.
    pub own: [u64; 3],
    /// Bytes in memory, without padding.
    pub size: u64,
    /// Warnings and notes.
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

/// Checks a module without its kernel's files.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn module(bytes: &[u8]) -> Result<Summary, Vec<Finding>> {
    module_against(bytes, Against::default().kernel)
}

/// Checks a module against a kernel.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn module_against(bytes: &[u8], kernel: &Kernel) -> Result<Summary, Vec<Finding>> {
    super::checked(Os::Illumos, bytes, |elf, functions| check(elf, functions, kernel))
        .map(|(summary, warnings)| Summary { warnings, ..summary })
}

fn check(elf: &Elf<'_>, functions: &Functions<'_>, kernel: &Kernel) -> Summary {
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
    Summary { depends, probes, sites, own, size: elf.size(), warnings: Vec::new() }
}
