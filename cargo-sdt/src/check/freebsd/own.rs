//! Records of the module's own providers: they must have this version's size, and names that DTrace does not change.

use std::collections::BTreeSet;

use sdt_core::ops::{PROBE_NAME_LEN, PROVIDER_NAME_LEN};
use sdt_core::{Probe, Provider};

use super::sets::whole;
use super::sites::RECORD;
use crate::check::elf::Elf;
use crate::check::names::{SITES, unusable};
use crate::check::record::Record;
use crate::check::rules::Rule;
use crate::platform::Os;

/// The parts of one kind of record that the check reads. All records start with their size.
struct Kind {
    /// The set's section.
    set: &'static str,
    /// The name of an element.
    element: &'static str,
    /// Its size.
    size: u64,
    /// Offset of the address of its name; the length of the name, including the NUL, follows.
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

/// Offset of a probe's provider.
const PROVIDER: u64 = 8;

/// The numbers of records of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) providers: u64,
    pub(super) probes: u64,
}

/// Checks the records and returns how many there are.
pub(super) fn check(elf: &Elf<'_>) -> Count {
    let [providers, probes] = [PROVIDERS, PROBES].map(|kind| {
        let mut count = 0;
        for section in elf.named(kind.set) {
            if whole(elf, section, kind.element, kind.size, 8) {
                count += section.size / kind.size;
                let offsets = section.elements(kind.size as usize);
                let records = offsets.map(|offset| Record { elf, home: section, offset });
                records.for_each(|record| check_one(record, &kind));
            }
        }
        count
    });
    without_sites(elf);
    Count { providers, probes }
}

fn check_one(record: Record<'_, '_>, kind: &Kind) {
    let element = kind.element;
    let found = record.u32(0).unwrap_or_default();
    if u64::from(found) != kind.size {
        return record.report(0, Rule::RecordVersion, &[&element, &found, &kind.size]);
    }
    let Some(name) = record.string(kind.name) else {
        return record.report(kind.name, Rule::NotAddress, &[&"the record's name"]);
    };
    let reason = if record.u64(kind.name + 8) == Some(name.len() as u64 + 1) {
        unusable(Os::FreeBsd, &name, kind.limit)
    } else {
        Some("contains a NUL, or has a wrong length".to_owned())
    };
    if let Some(reason) = reason {
        record.report(kind.name, Rule::Name, &[&element, &name, &reason]);
    }
}

/// Reports providers without a site that fires one of their probes. Sites that are not patched have no records, so they
/// do not count.
fn without_sites(elf: &Elf<'_>) {
    let records = |set, each| {
        elf.named(set).flat_map(move |section| {
            section.elements(each).map(move |offset| Record { elf, home: section, offset })
        })
    };
    let sites = records(SITES, RECORD as usize);
    let fired: BTreeSet<String> =
        sites.filter_map(|site| site.record(0)?.record(PROVIDER)?.string(PROVIDERS.name)).collect();
    if fired.is_empty() {
        return;
    }
    let providers = records(PROVIDERS.set, PROVIDERS.size as usize);
    let names: BTreeSet<_> = providers.filter_map(|record| record.string(PROVIDERS.name)).collect();
    names.difference(&fired).for_each(|name| elf.findings.file(Rule::NoSite, &[name]));
}
