//! The contents of a good module, as the command prints them.

use std::collections::BTreeSet;
use std::fmt;

use super::finding::Finding;
use crate::platform::{FreeBsd, Generation, Route};

/// The contents of a good module for either system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A module for FreeBSD.
    FreeBsd(FreeBsdSummary),
    /// A module for illumos.
    Illumos(IllumosSummary),
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
pub struct FreeBsdSummary {
    /// The names of the modules in the file.
    pub modules: Vec<String>,
    /// The release of FreeBSD.
    pub release: FreeBsd,
    /// Whether the module names the release; if not, the check derives it from the records.
    pub says_release: bool,
    /// The route of the probes; `None` if there are no providers.
    pub route: Option<Route>,
    /// The dependencies of the modules.
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

impl fmt::Display for FreeBsdSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// The contents of a good module for illumos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllumosSummary {
    /// Its dependencies.
    pub depends: Vec<String>,
    /// Its probes, as DTrace lists them: `provider:::name`.
    pub probes: BTreeSet<String>,
    /// Calls that fire them.
    pub sites: usize,
    /// The numbers of records of providers, probes and sites, if the module registers providers of its own.
    pub own: [u64; 3],
    /// Bytes in memory, without padding.
    pub size: u64,
    /// Warnings and notes.
    pub warnings: Vec<Finding>,
}

impl fmt::Display for IllumosSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let depends = list(&self.depends, "nothing");
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
            let probes: Vec<_> = self.probes.iter().cloned().collect();
            let probes = list(&probes, "no probe");
            write!(f, "{}: {probes}; ", count(self.sites as u64, "site"))?;
        }
        write!(f, "{} bytes", self.size)
    }
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn list(names: &[String], none: &str) -> String {
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}
