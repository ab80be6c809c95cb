//! `struct sdt_provider`.

use std::collections::BTreeMap;

use sdt_core::ops::PROVIDER_NAME_LEN;

use super::PROVIDERS;
use super::record::Record;
use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::freebsd::names::unusable;
use crate::check::freebsd::sets::elements;
use crate::check::image::{Image, Target};

const SIZE: u64 = 40;
const NAME: u64 = 0;
const ENTRY: u64 = 8;
const ID: u64 = 24;

/// Checks the providers and returns where they are, with their names.
pub(super) fn check(image: &Image<'_>, findings: &mut Findings) -> BTreeMap<Target, String> {
    let mut providers = BTreeMap::new();
    for (_, _, at) in elements(image, PROVIDERS) {
        let record = Record::new(image, at);
        let name = record.string(NAME).unwrap_or_default();
        if record.is_sound("a struct sdt_provider", SIZE, findings) {
            record.check_zero("the list entry of a struct sdt_provider", ENTRY..ID, findings);
            record.check_zero("the id or count of a struct sdt_provider", ID..SIZE, findings);
            if record.address(NAME).is_none() {
                record.report(NAME, Problem::NotAddress("the provider's name"), findings);
            } else if let Some(reason) = unusable(&name, PROVIDER_NAME_LEN) {
                let name = name.clone();
                let problem = Problem::Name { element: "provider", name, reason };
                record.report(NAME, problem, findings);
            }
        }
        providers.insert(at, name);
    }
    providers
}
