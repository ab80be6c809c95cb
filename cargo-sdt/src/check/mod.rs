//! The check after linking: would the kernel's loader take this module, and is it safe to let it?
//!
//! A module that fails to load half-way can take the kernel down with it, so the rules of the loaders
//! (FreeBSD's `sys/kern/link_elf_obj.c` and `sys/kern/link_elf.c`, illumos's krtld), of the linker sets and of the
//! site records are checked here, before a kernel sees the file. A kernel would refuse the
//! module, or break, because of an error; only the kernel or the author can judge a warning; a note names symbols that the
//! check does not know. A file that does not match its seal was changed after the link, and nothing else is checked.

mod code;
pub mod fbt;
mod fields;
mod finding;
pub mod flow;
pub mod freebsd;
mod functions;
pub mod illumos;
mod image;
mod kernel;
mod kin;
mod layout;
mod operand;
mod problem;
#[cfg(test)]
mod tests;

use std::fmt;

use finding::Findings;
pub use finding::{Finding, Level, Place, Problem};
use image::Image;
pub use kernel::{Exports, Kernel, KernelError};
pub use kin::Kin;

use crate::platform::{FreeBsd, Generation, Os, Route};

/// What is known besides the file's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Against<'a> {
    /// The name of the module's file, by which FreeBSD knows its probes.
    pub file: Option<&'a str>,
    /// The kernel that it is for.
    pub kernel: &'a Kernel,
}

impl Default for Against<'_> {
    /// Nothing.
    fn default() -> Self {
        static UNKNOWN: Kernel = Kernel::unknown();
        Self { file: None, kernel: &UNKNOWN }
    }
}

/// What a module for either system consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// One for FreeBSD.
    FreeBsd(Summary),
    /// One for illumos.
    Illumos(illumos::Summary),
}

impl Contents {
    /// What is worth a look, though the module can be loaded.
    pub fn warnings(&self) -> &[Finding] {
        match self {
            Self::FreeBsd(summary) => &summary.warnings,
            Self::Illumos(summary) => &summary.warnings,
        }
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FreeBsd(summary) => summary.fmt(f),
            Self::Illumos(summary) => summary.fmt(f),
        }
    }
}

/// What a good module consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Names of the modules in it.
    pub modules: Vec<String>,
    /// The kernels they are for.
    pub release: FreeBsd,
    /// Whether the module says so itself; if not, it is what its records look like.
    pub says_release: bool,
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
    /// What is worth a look, though it can be loaded.
    pub warnings: Vec<Finding>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String], none: &str| {
            if names.is_empty() { none.to_owned() } else { names.join(", ") }
        };
        write!(f, "module {} for FreeBSD {}", list(&self.modules, "of no name"), self.release)?;
        if !self.says_release {
            write!(f, " by its looks")?;
        }
        if let Some(route) = self.route {
            write!(f, ", route {route}")?;
        }
        // Of a site that tests a flag there is no record.
        let sites = if self.route == Some(Route::Native)
            && self.release.generation() == Generation::Tested
        {
            "sites that test a flag".to_owned()
        } else {
            count(self.sites, "site")
        };
        write!(
            f,
            ", depends on {}; {}, {}, {sites}; {} bytes",
            list(&self.depends, "nothing"),
            count(self.providers, "provider"),
            count(self.probes, "probe record"),
            self.size,
        )
    }
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Checks a module for FreeBSD, of whose kernel nothing is known; for which architecture, it says itself.
///
/// # Errors
/// Everything that was found, if an error is among it.
pub fn module(file: &[u8]) -> Result<Summary, Vec<Finding>> {
    module_against(file, Against::default())
}

/// Checks a module for FreeBSD.
///
/// # Errors
/// As of [`module`].
pub fn module_against(file: &[u8], against: Against<'_>) -> Result<Summary, Vec<Finding>> {
    let mut findings = Findings::of(file)?;
    let Some(image) = Image::parse(file, &mut findings) else { return Err(findings.0) };
    code::check(&image, &mut findings);
    let contents = freebsd::check(&image, file, against, &mut findings);
    let warnings = findings.done()?;
    Ok(Summary { warnings, ..contents })
}

/// Checks a module for the system given.
///
/// # Errors
/// As of [`module`].
pub fn module_of(os: Os, file: &[u8], against: Against<'_>) -> Result<Contents, Vec<Finding>> {
    if let Some(found) = Os::told_by(file).filter(|&found| found != os) {
        // Of what the other kernel would say of it, nothing is of use.
        let problem = Problem::OtherSystem { found, wanted: os };
        return Err(vec![Finding { place: Place::File, problem }]);
    }
    match os {
        Os::FreeBsd => module_against(file, against).map(Contents::FreeBsd),
        Os::Illumos => illumos::module_against(file, against.kernel).map(Contents::Illumos),
    }
}
