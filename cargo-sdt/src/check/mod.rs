//! The check after linking: would the kernel's loader take this module, and is it safe to load?
//!
//! A module that fails to load half-way can take the kernel down with it, so the check applies the rules of the loaders
//! (FreeBSD's `sys/kern/link_elf_obj.c` and `sys/kern/link_elf.c`, illumos's krtld), of the linker sets and of the
//! site records before a kernel sees the file. [`elf`] is the one view of the file, [`rules`] the table of all rules. If a
//! file does not match its seal, something changed it after the link, and the check stops there: the rules for files without
//! a seal are those that a compiler, a link step or a user can break, and those without which a loader or fbt crashes.

mod code;
mod elf;
pub(crate) mod fbt;
mod finding;
mod freebsd;
mod functions;
pub(crate) mod illumos;
mod instruction;
mod kernel;
mod names;
mod operand;
mod record;
mod relocations;
mod rules;
mod sections;
mod symbols;

use std::fmt;

use elf::Elf;
pub use finding::{Finding, Place};
use functions::Functions;
pub use kernel::Kernel;
pub use rules::{Level, Rule};

use crate::link::Seal;
use crate::platform::{FreeBsd, Generation, Os, Route};

/// The set of sites that the module patches itself (`sdt_core::patch`).
const SITES: &str = "sdt_sites";
/// The set of sites that FreeBSD's sdt patches.
const TRACEPOINTS: &str = "set_sdt_tracepoint_set";
/// The set of is-enabled sites on illumos, through which `_init` goes (`sdt_core::illumos::native`).
const ENABLED: &str = "sdt_is_enabled";

/// What the check knows besides the file's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Against<'a> {
    /// The name of the module's file, by which FreeBSD knows its probes.
    pub file: Option<&'a str>,
    /// The files of the kernel that it is for.
    pub kernel: &'a Kernel,
}

impl Default for Against<'_> {
    /// Knows nothing.
    fn default() -> Self {
        static UNKNOWN: Kernel = Kernel::unknown();
        Self { file: None, kernel: &UNKNOWN }
    }
}

/// The contents of a good module for either system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A module for FreeBSD.
    FreeBsd(Summary),
    /// A module for illumos.
    Illumos(illumos::Summary),
}

impl Contents {
    /// Returns the warnings and notes.
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

/// The contents of a good module for FreeBSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The names of the modules in the file.
    pub modules: Vec<String>,
    /// The kernels they are for.
    pub release: FreeBsd,
    /// Whether the module names the release; if not, its records look like it.
    pub says_release: bool,
    /// How the kernel finds the probes; `None` if there are no providers.
    pub route: Option<Route>,
    /// The modules that they depend on.
    pub depends: Vec<String>,
    /// Provider records.
    pub providers: u64,
    /// Probe records; several may be one probe.
    pub probes: u64,
    /// Site records.
    pub sites: u64,
    /// Bytes in memory, without padding.
    pub size: u64,
    /// Warnings and notes.
    pub warnings: Vec<Finding>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String], none: &str| {
            if names.is_empty() { none.to_owned() } else { names.join(", ") }
        };
        write!(f, "module {} for FreeBSD {}", list(&self.modules, "without a name"), self.release)?;
        if !self.says_release {
            write!(f, " by its records")?;
        }
        if let Some(route) = self.route {
            write!(f, ", route {route}")?;
        }
        // A site that tests a flag has no record.
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

/// Checks a module for FreeBSD without its kernel's files; for which architecture it is, it says itself.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn module(file: &[u8]) -> Result<Summary, Vec<Finding>> {
    module_against(file, Against::default())
}

/// Checks a module for FreeBSD.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn module_against(file: &[u8], against: Against<'_>) -> Result<Summary, Vec<Finding>> {
    checked(Os::FreeBsd, file, |elf, functions| freebsd::check(elf, functions, against))
        .map(|(summary, warnings)| Summary { warnings, ..summary })
}

/// Checks a module for a system.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn module_of(os: Os, file: &[u8], against: Against<'_>) -> Result<Contents, Vec<Finding>> {
    if let Some(found) = Os::told_by(file).filter(|&found| found != os) {
        return Err(vec![Finding::new(Place::File, Rule::OtherSystem, &[&found, &os, &found])]);
    }
    match os {
        Os::FreeBsd => module_against(file, against).map(Contents::FreeBsd),
        Os::Illumos => illumos::module_against(file, against.kernel).map(Contents::Illumos),
    }
}

/// Applies the rules that all systems share, and those of one system. Returns the summary of the latter, and the warnings.
fn checked<S>(
    os: Os,
    file: &[u8],
    check: impl FnOnce(&Elf<'_>, &Functions<'_>) -> S,
) -> Result<(S, Vec<Finding>), Vec<Finding>> {
    if Seal::of(file) == Seal::Broken {
        return Err(vec![Finding::new(Place::File, Rule::BrokenSeal, &[])]);
    }
    let elf = Elf::parse(os, file)?;
    let functions = Functions::new(elf.all_symbols());
    sections::check(&elf);
    symbols::check(&elf);
    code::check(&elf);
    let summary = check(&elf, &functions);
    Ok((summary, elf.findings.done()?))
}
