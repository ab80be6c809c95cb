//! Provider and probe records: of this version's size, and with names that DTrace takes as they are.

use sdt_core::__private::record::{Probe, Provider};
use sdt_core::ops::{PROBE_NAME_LEN, PROVIDER_NAME_LEN};

use super::names::unusable;
use super::sets::whole;
use crate::check::finding::{Findings, Problem};
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
