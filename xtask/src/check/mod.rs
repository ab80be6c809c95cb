//! The check after linking: would FreeBSD's loader take this module, and is it safe to let it?
//!
//! A module that fails to load half-way can take the kernel down with it, so the rules of the loader
//! (`sys/kern/link_elf_obj.c`, `sys/kern/link_elf.c`), of the linker sets and of the site records are checked here, before
//! a kernel sees the file.

mod code;
mod finding;
mod freebsd;
pub mod illumos;
mod image;
#[cfg(test)]
mod tests;

use std::fmt;

use finding::Findings;
pub use finding::{Finding, Place, Problem};
use image::Image;

use crate::platform::{FreeBsd, Route};

/// What a good module consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Names of the modules in it.
    pub modules: Vec<String>,
    /// The kernels they are for.
    pub release: FreeBsd,
    /// How those come to know the probes; `None` if there are no providers.
    pub route: Option<Route>,
    /// What they depend on.
    pub depends: Vec<String>,
    /// Provider records.
    pub providers: u64,
    /// Probe records; several may be one probe.
    pub probes: u64,
    /// Site records.
    pub sites: u64,
    /// Bytes in memory, without padding.
    pub size: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "module {} for FreeBSD {}{}, depends on {}; {}, {}, {}; {} bytes",
            self.modules.join(", "),
            self.release,
            self.route.map_or_else(String::new, |route| format!(", route {route}")),
            if self.depends.is_empty() { "nothing".into() } else { self.depends.join(", ") },
            count(self.providers, "provider"),
            count(self.probes, "probe record"),
            count(self.sites, "site"),
            self.size,
        )
    }
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Checks a module; for which architecture, it says itself.
///
/// # Errors
/// Everything that is wrong with it.
pub fn module(file: &[u8]) -> Result<Summary, Vec<Finding>> {
    let mut findings = Findings::default();
    let Some(image) = Image::parse(file, &mut findings) else { return Err(findings.0) };
    code::check(&image, &mut findings);
    let contents = freebsd::check(&image, file, &mut findings);
    if !findings.0.is_empty() {
        return Err(findings.0);
    }
    Ok(contents)
}
