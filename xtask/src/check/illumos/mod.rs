//! The check of modules for illumos: would krtld take this one, and does it do with its probes what is meant?
//!
//! krtld trusts a module. What it does with a probe is to overwrite five bytes around the relocation of a
//! call, whatever these bytes are, and what it does with a relocation through the global offset table is
//! to write an address where the distance to one belongs (`usr/src/uts/intel/amd64/krtld/kobj_reloc.c`,
//! `doreloc.c`). Nothing says so before the kernel runs into it. So it is checked here.

mod depends;
mod file;
mod probes;
mod problem;
mod relocations;
mod sections;
mod symbols;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use super::code;
use super::finding::{Finding, Findings};
use super::{count, finding};
use file::File;
pub use problem::Problem;

/// What a good module consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What it depends on.
    pub depends: Vec<String>,
    /// Its probes, as DTrace lists them: `provider:::name`.
    pub probes: BTreeSet<String>,
    /// Calls that fire them.
    pub sites: usize,
    /// Bytes in memory, without padding.
    pub size: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: Vec<&str>, none: &str| {
            if names.is_empty() { none.to_owned() } else { names.join(", ") }
        };
        write!(
            f,
            "for illumos, depends on {}; {}: {}; {} bytes",
            list(self.depends.iter().map(String::as_str).collect(), "nothing"),
            count(self.sites as u64, "site"),
            list(self.probes.iter().map(String::as_str).collect(), "no probe"),
            self.size,
        )
    }
}

/// Checks a module.
///
/// # Errors
/// Everything that is wrong with it.
pub fn module(bytes: &[u8]) -> Result<Summary, Vec<Finding>> {
    let mut findings = Findings::default();
    let Some(file) = File::parse(bytes, &mut findings) else { return Err(findings.0) };
    sections::check(&file, &mut findings);
    relocations::check(&file, &mut findings);
    for section in file.sections.iter().filter(|section| section.is_loaded() && section.is_code()) {
        code::x86_64(&section.name, section.data, &mut findings);
    }
    let (probes, sites) = probes::check(&file, &mut findings);
    let depends = depends::check(&file, &mut findings);
    symbols::check(&file, &depends, &mut findings);
    if !findings.0.is_empty() {
        return Err(findings.0);
    }
    let loaded = file.sections.iter().filter(|section| section.is_loaded());
    let size = loaded.map(|section| section.size).fold(0, u64::saturating_add);
    Ok(Summary { depends, probes, sites, size })
}

impl Findings {
    fn illumos(&mut self, place: finding::Place, problem: Problem) {
        self.0.push(Finding { place, problem: problem.into() });
    }
}
