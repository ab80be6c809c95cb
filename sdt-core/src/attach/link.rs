//! Checking an image's records and tying them together: what [attaching](super) begins with.
//!
//! Records come from the linker, but nothing says that it was told to do the right thing, that one version of
//! this crate made them all, or that the file was not damaged. So none is used before it has been checked.

use super::AttachError;
use crate::arch;
use crate::patch::{self, Patcher};
use crate::record::{ArgList, ArgTypes, Probe, Provider, Site};

/// All records of an image.
#[derive(Debug)]
pub struct Records {
    /// Its providers.
    pub providers: &'static [Provider],
    /// Its probes.
    pub probes: &'static [Probe],
    /// Its sites, in any order.
    pub sites: &'static mut [Site],
    /// What sites of open providers fire.
    pub arg_lists: &'static [ArgList],
}

/// Checks all records and ties them together: probes to their primaries, arguments and sites to probes.
/// Afterwards the sites are in order of their patchpoints.
///
/// May be called again after an error, with the same result.
///
/// # Safety
/// - The records are laid out as this version of the crate lays them out, or begin with another size;
///   references and functions in them are good. Sites may hold anything that is not
///   [text](Patcher::is_text) to the patcher.
/// - No probe among them is enabled and no breakpoint handler looks for their sites.
///
/// # Errors
/// The first record that is no good.
pub unsafe fn link(records: Records, patcher: &dyn Patcher) -> Result<(), AttachError> {
    let Records { providers, probes, sites, arg_lists } = records;
    if let Some(index) = providers.iter().position(|provider| !provider.is_current()) {
        return Err(AttachError::Version { set: "linkme_SDT_PROVIDERS", index });
    }
    if let Some(index) = probes.iter().position(|probe| !probe.is_current()) {
        return Err(AttachError::Version { set: "linkme_SDT_PROBES", index });
    }
    for provider in providers {
        // Only the first of a name is registered.
        if providers.iter().any(|other| contradict(provider, other)) {
            return Err(AttachError::Provider { provider: provider.name() });
        }
    }
    for (index, probe) in probes.iter().enumerate() {
        // By address, before anything is read that it refers to.
        if !providers.iter().any(|provider| core::ptr::eq(provider, probe.provider())) {
            return Err(AttachError::ProbeProvider { index });
        }
    }
    for probe in probes {
        let primary = probes.iter().find(|other| same_probe(other, probe));
        probe.set_primary(primary.unwrap_or(probe));
        probe.clear_sites();
    }
    link_args(probes, arg_lists)?;
    sites.sort_unstable_by_key(|site| site.patchpoint());
    link_sites(probes, sites, patcher)
}

/// Whether two records of one provider say different things of it.
fn contradict(a: &Provider, b: &Provider) -> bool {
    a.name() == b.name() && (a.attr() != b.attr() || a.privileges() != b.privileges())
}

/// Whether two records are of one logical probe.
pub(crate) fn same_probe(a: &Probe, b: &Probe) -> bool {
    a.name() == b.name() && a.provider().name() == b.provider().name()
}

/// Gives each primary its argument types and checks that all records and sites agree on them.
fn link_args(probes: &'static [Probe], lists: &'static [ArgList]) -> Result<(), AttachError> {
    let agree = |probe: &Probe, args: &'static ArgTypes| {
        let primary = probe.primary();
        match primary.args() {
            None => primary.set_args(args),
            Some(known) if known == *args => {}
            Some(_) => {
                let (provider, name) = (probe.provider().name(), probe.name());
                return Err(AttachError::Arguments { provider, name });
            }
        }
        Ok(())
    };
    for probe in probes {
        if let Some(args) = probe.declared_args() {
            agree(probe, args)?;
        }
    }
    for (index, list) in lists.iter().enumerate() {
        let probe = (list.probe)();
        if !probes.iter().any(|other| core::ptr::eq(other, probe)) {
            return Err(AttachError::ListProbe { index });
        }
        agree(probe, (list.types)())?;
    }
    Ok(())
}

/// Gives each primary its sites.
fn link_sites(
    probes: &'static [Probe],
    sites: &'static [Site],
    patcher: &dyn Patcher,
) -> Result<(), AttachError> {
    let length = arch::ENCODING.nop.as_bytes().len();
    let mut next = usize::MAX;
    // In reverse, so that the lists come out in order of address.
    for site in sites.iter().rev() {
        let patchpoint = site.patchpoint();
        let probe = probes
            .iter()
            .find(|probe| core::ptr::eq(*probe, site.probe()))
            .ok_or(AttachError::SiteProbe { patchpoint })?;
        if !patcher.is_text(patchpoint, length) || !patch::has_nop(site) {
            return Err(AttachError::SiteText { patchpoint });
        }
        if next - patchpoint < length {
            return Err(AttachError::SiteOverlap { patchpoint });
        }
        // A CPU that would go on in the site itself would never leave it.
        let into_itself = (patchpoint..patchpoint + length).contains(&site.target());
        if into_itself || !patcher.is_text(site.target(), 1) {
            return Err(AttachError::SiteTarget { patchpoint });
        }
        probe.push_site(site);
        next = patchpoint;
    }
    Ok(())
}

/// The site with this patchpoint, among linked ones. Probe context.
pub fn find(sites: &[Site], patchpoint: usize) -> Option<&Site> {
    let at = sites.binary_search_by_key(&patchpoint, Site::patchpoint).ok()?;
    sites.get(at)
}
