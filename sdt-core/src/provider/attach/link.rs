//! Checks the records of an image and links them to each other: the first step of [attaching](super).
//!
//! The linker collects the records. Its command line may be wrong, the records may be from different versions of this crate, or
//! the file may be damaged. Therefore each record is checked before it is used.

use core::sync::atomic::AtomicPtr;

use super::AttachError;
use super::sort::{self, Linked, sort};
use crate::patch::{self, Patcher};
use crate::record::{ArgList, ArgTypes, Args, Probe, Provider, Site};
use crate::site;

pub use crate::record::{Records, find};

/// Checks all records and links them: probes to their primaries, arguments and sites to probes. Afterwards the sites are in order
/// of their patchpoints.
///
/// May be called again after an error, with the same result.
///
/// # Safety
/// - The records have the layout of this version of the crate, or begin with another size. References and function
///   pointers in them are valid. Sites may contain any address for which the patcher's [`is_text`](Patcher::is_text)
///   returns false.
/// - No probe among them is enabled, and no breakpoint handler searches for their sites.
///
/// # Errors
/// The first invalid record.
pub unsafe fn link(records: Records, patcher: &dyn Patcher) -> Result<(), AttachError> {
    let Records { providers, probes, sites, arg_lists } = records;
    if let Some(index) = providers.iter().position(|provider| !provider.is_current()) {
        return Err(AttachError::Version { set: "linkme_SDT_PROVIDERS", index });
    }
    if let Some(index) = probes.iter().position(|probe| !probe.is_current()) {
        return Err(AttachError::Version { set: "linkme_SDT_PROBES", index });
    }
    link_providers(providers)?;
    link_probes(providers, probes)?;
    link_args(probes, arg_lists)?;
    sites.sort_unstable_by_key(|site| site.patchpoint());
    link_sites(probes, sites, patcher)
}

impl Linked for Provider {
    fn link(&self) -> &AtomicPtr<Self> {
        Self::link(self)
    }
}

impl Linked for Probe {
    fn link(&self) -> &AtomicPtr<Self> {
        Self::link(self)
    }
}

/// Returns the record of `records` at an address, or `None` if no record begins there.
fn record_at<T>(records: &'static [T], record: *const T) -> Option<&'static T> {
    let offset = record.addr().checked_sub(records.as_ptr().addr())?;
    if !offset.is_multiple_of(size_of::<T>()) {
        return None;
    }
    records.get(offset / size_of::<T>())
}

/// Links the records of each provider to the first of them, its primary, which is registered.
fn link_providers(providers: &'static [Provider]) -> Result<(), AttachError> {
    providers.iter().for_each(Provider::clear_links);
    let mut at = sort(providers, &mut |a, b| a.name() < b.name());
    let mut primary: Option<&'static Provider> = None;
    while let Some(provider) = at {
        let of = primary.filter(|primary| primary.name() == provider.name()).unwrap_or(provider);
        if of.attr() != provider.attr() || of.privileges() != provider.privileges() {
            return Err(AttachError::Provider { provider: provider.name() });
        }
        provider.set_primary(of);
        primary = Some(of);
        at = sort::next(provider);
    }
    Ok(())
}

/// Links the records of each logical probe, and the probes of each provider.
fn link_probes(
    providers: &'static [Provider],
    probes: &'static [Probe],
) -> Result<(), AttachError> {
    for (index, probe) in probes.iter().enumerate() {
        // Checks the address of the provider before anything is read from it.
        if record_at(providers, probe.provider()).is_none() {
            return Err(AttachError::ProbeProvider { index });
        }
        probe.clear_links();
    }
    let provider = |probe: &Probe| core::ptr::from_ref(probe.provider().primary());
    let mut at = sort(probes, &mut |a, b| {
        provider(a).cmp(&provider(b)).then_with(|| a.name().cmp(b.name())).is_lt()
    });
    let mut primary: Option<&'static Probe> = None;
    while let Some(probe) = at {
        let same =
            |other: &&Probe| provider(other) == provider(probe) && other.name() == probe.name();
        let of = primary.filter(same).unwrap_or(probe);
        probe.set_primary(of);
        primary = Some(of);
        at = sort::next(probe);
    }
    // In reverse, so that the lists come out in the order of the set.
    for probe in probes.iter().rev() {
        if core::ptr::eq(probe.primary(), probe) {
            probe.provider().primary().push_probe(probe);
        } else {
            probe.push_record(probe);
        }
    }
    Ok(())
}

/// Sets the arguments of each primary, and checks that all records and sites agree on their types. A primary gets only the
/// borrows that all of them have, because types with the same name in D can differ in Rust.
fn link_args(probes: &'static [Probe], lists: &'static [ArgList]) -> Result<(), AttachError> {
    let agree = |probe: &Probe, args: &'static Args| {
        let types = |of: ArgTypes| of.iter().copied().flatten();
        let primary = probe.primary();
        match primary.declared_args() {
            None => {
                primary.set_args(args);
                primary.set_borrows(args.borrows);
            }
            Some(known) if types(known.types).eq(types(args.types)) => {
                primary.set_borrows(primary.borrows().and(args.borrows));
            }
            Some(_) => {
                let (provider, name) = (probe.provider().name(), probe.name());
                return Err(AttachError::Arguments { provider, name });
            }
        }
        Ok(())
    };
    for probe in probes {
        if let Some(args) = probe.primary().declared_args() {
            probe.set_borrows(args.borrows);
        }
    }
    for probe in probes {
        if let Some(args) = probe.declared_args() {
            agree(probe, args)?;
        }
    }
    for (index, list) in lists.iter().enumerate() {
        let probe = (list.probe)();
        if record_at(probes, probe).is_none() {
            return Err(AttachError::ListProbe { index });
        }
        agree(probe, (list.args)())?;
    }
    Ok(())
}

/// Checks the sites, and links each to the primary of its probe.
fn link_sites(
    probes: &'static [Probe],
    sites: &'static [Site],
    patcher: &dyn Patcher,
) -> Result<(), AttachError> {
    let length = site::LEN;
    let mut next = usize::MAX;
    // In reverse, so that the lists come out in order of address.
    for site in sites.iter().rev() {
        let patchpoint = site.patchpoint();
        let probe =
            record_at(probes, site.record()).ok_or(AttachError::SiteProbe { patchpoint })?;
        if !patcher.is_text(patchpoint, length) || !patch::has_nop(site) {
            return Err(AttachError::SiteText { patchpoint });
        }
        if next - patchpoint < length {
            return Err(AttachError::SiteOverlap { patchpoint });
        }
        // If the cold block were inside the site, a CPU would loop there for ever.
        let into_itself = (patchpoint..patchpoint + length).contains(&site.target());
        if into_itself || !patcher.is_text(site.target(), 1) {
            return Err(AttachError::SiteTarget { patchpoint });
        }
        probe.push_site(site);
        next = patchpoint;
    }
    Ok(())
}
