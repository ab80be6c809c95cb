//! `struct sdt_tracepoint`: what there is to say besides what all [sites](super::super::sites) have to be.

use std::collections::BTreeMap;

use super::PROBES;
use crate::check::finding::{Findings, Problem};
use crate::check::freebsd::sets::TRACEPOINTS;
use crate::check::image::{Image, Target};
use crate::platform::{FreeBsd, Generation};

const SIZE: usize = 32;

pub(super) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    probes: &BTreeMap<Target, String>,
    findings: &mut Findings,
) {
    for section in image.named(TRACEPOINTS).filter(|section| section.size > 0) {
        if release.generation() == Generation::Tested {
            findings.section(&section.name, Problem::NoTracepoints(release));
        }
        for at in section.elements(SIZE) {
            // What is no address at all is reported with the sites.
            if image.address(section, at).is_some_and(|probe| !probes.contains_key(&probe)) {
                let problem = Problem::NotRecord { what: "the site's probe", set: PROBES };
                findings.offset(&section.name, at, problem);
            }
        }
    }
}
