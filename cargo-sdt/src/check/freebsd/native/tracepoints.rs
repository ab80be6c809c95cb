//! `struct sdt_tracepoint`: what there is to say besides what all [sites](super::super::sites) have to be.

use std::collections::{BTreeMap, BTreeSet};

use super::PROBES;
use super::probes::provider_of;
use crate::check::finding::{self, Findings};
use crate::check::freebsd::Problem;
use crate::check::freebsd::sets::TRACEPOINTS;
use crate::check::image::{Image, Target};
use crate::platform::{FreeBsd, Generation};

const SIZE: usize = 32;

pub(super) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    providers: &BTreeMap<Target, String>,
    probes: &BTreeMap<Target, String>,
    findings: &mut Findings,
) {
    // Of a site whose probe is not known, nothing follows.
    let (mut fired, mut known) = (BTreeSet::new(), true);
    for section in image.named(TRACEPOINTS).filter(|section| section.size > 0) {
        if release.generation() == Generation::Tested {
            findings.section(&section.name, Problem::NoTracepoints(release));
        }
        for at in section.elements(SIZE) {
            // What is no address at all is reported with the sites.
            let probe = image.address(section, at);
            if probe.is_some_and(|probe| !probes.contains_key(&probe)) {
                let problem = Problem::NotRecord { what: "the site's probe", set: PROBES };
                findings.offset(&section.name, at, problem);
            }
            let provider = probe.and_then(|probe| provider_of(image, probe));
            let name = provider.and_then(|provider| providers.get(&provider));
            known &= name.is_some();
            fired.extend(name);
        }
    }
    // Of a site that tests a flag there is no record.
    if release.generation() == Generation::Patched && known {
        // One provider may have several records.
        let silent: BTreeSet<_> = providers.values().filter(|name| !fired.contains(name)).collect();
        silent.into_iter().for_each(|name| findings.file(finding::Problem::NoSite(name.clone())));
    }
}
