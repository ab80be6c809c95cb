//! Pointers in data to code: they are called, so that a function has to start where they point.

use std::collections::BTreeMap;

use super::sets::TRACEPOINTS;
use super::sites::SITES;
use crate::check::finding::{self, Findings};
use crate::check::functions::Functions;
use crate::check::image::Image;

/// Sets of places in code that are no functions, whose own rules are with the [sites](super::sites).
const PLACES: [&str; 2] = [SITES, TRACEPOINTS];

pub(crate) fn check(image: &Image<'_>, functions: &Functions<'_>, findings: &mut Findings) {
    let data = image.loaded().filter(|of| !of.is_code() && !PLACES.contains(&&*of.name));
    for section in data {
        let targets = section.relocations.keys().filter_map(|&at| {
            let target = image.address(section, at)?;
            image.section_of(target).is_code().then_some((at, (target.section, target.offset)))
        });
        let targets: BTreeMap<_, _> = targets.collect();
        for (at, place) in functions.astray(&targets) {
            let (function, offset) = functions.describe(place);
            findings.offset(
                &section.name,
                at,
                finding::Problem::MiddleOfFunction { function, offset },
            );
        }
    }
}
