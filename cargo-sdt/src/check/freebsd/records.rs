//! Provider and probe records: of this version's size, and with names that DTrace takes as they are.

use std::collections::BTreeSet;

use sdt_core::ops::{PROBE_NAME_LEN, PROVIDER_NAME_LEN};
use sdt_core::{Probe, Provider};

use super::names::unusable;
use super::sets::whole;
use super::sites::SITES;
use crate::check::finding::{self, Findings};
use crate::check::freebsd::Problem;
use crate::check::image::{Image, Section};

/// One kind of record, as far as its bytes are looked at here. All start with their size.
struct Kind {
    /// The set's section.
    set: &'static str,
    /// What one is called.
    element: &'static str,
    /// Its size.
    size: u64,
    /// Where the address of its name is; the name's length, NUL included, follows.
    name: u64,
    /// Most bytes of a name, NUL included.
    limit: usize,
}

const PROVIDERS: Kind = Kind {
    set: "linkme_SDT_PROVIDERS",
    element: "provider",
    size: size_of::<Provider>() as u64,
    name: 8,
    limit: PROVIDER_NAME_LEN,
};

const PROBES: Kind = Kind {
    set: "linkme_SDT_PROBES",
    element: "probe",
    size: size_of::<Probe>() as u64,
    name: 16,
    limit: PROBE_NAME_LEN,
};

/// Where a probe's provider is.
const PROVIDER: u64 = 8;
/// Bytes of a site's record, which begins with its probe.
const SITE: usize = 32;

/// How many records there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) providers: u64,
    pub(crate) probes: u64,
}

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) -> Count {
    Count {
        providers: check_kind(image, &PROVIDERS, findings),
        probes: check_kind(image, &PROBES, findings),
    }
}

/// Reports providers of which no site fires a probe. Where sites are not patched there are no records of them, and nothing
/// is known of any.
pub(crate) fn without_sites(image: &Image<'_>, findings: &mut Findings) {
    let name_of = |section: &Section<'_>, record: u64, kind: &Kind| {
        image.string(image.address(section, record.wrapping_add(kind.name))?)
    };
    let fired: BTreeSet<String> = image
        .named(SITES)
        .flat_map(|section| section.elements(SITE).map(move |at| (section, at)))
        .filter_map(|(section, at)| {
            let probe = image.address(section, at)?;
            let home = image.section_of(probe);
            let provider = image.address(home, probe.offset.wrapping_add(PROVIDER))?;
            name_of(image.section_of(provider), provider.offset, &PROVIDERS)
        })
        .collect();
    if fired.is_empty() {
        return;
    }
    let records = image
        .named(PROVIDERS.set)
        .flat_map(|section| section.elements(PROVIDERS.size as usize).map(move |at| (section, at)));
    let names: BTreeSet<_> =
        records.filter_map(|(section, at)| name_of(section, at, &PROVIDERS)).collect();
    let silent = names.difference(&fired);
    silent.for_each(|name| findings.file(finding::Problem::NoSite(name.clone())));
}

fn check_kind(image: &Image<'_>, kind: &Kind, findings: &mut Findings) -> u64 {
    let mut count = 0;
    for section in image.named(kind.set) {
        if !whole(section, kind.element, kind.size, 8, findings) {
            continue;
        }
        count += section.size / kind.size;
        for at in section.elements(kind.size as usize) {
            record(image, section, at, kind, findings);
        }
    }
    count
}

fn record(image: &Image<'_>, section: &Section<'_>, at: u64, kind: &Kind, findings: &mut Findings) {
    let element = kind.element;
    let found = section.u32(at).unwrap_or_default();
    if u64::from(found) != kind.size {
        let expected = kind.size as u32;
        let problem = Problem::RecordVersion { element, found, expected };
        return findings.offset(&section.name, at, problem);
    }
    let at = at + kind.name;
    let Some(name) = image.address(section, at).and_then(|name| image.string(name)) else {
        return findings.offset(&section.name, at, Problem::NotAddress("the record's name"));
    };
    let length = section.u64(at + 8);
    let reason = if length != Some(name.len() as u64 + 1) {
        Some("has a NUL in it or a wrong length".to_owned())
    } else {
        unusable(&name, kind.limit)
    };
    if let Some(reason) = reason {
        findings.offset(&section.name, at, Problem::Name { element, name, reason });
    }
}
