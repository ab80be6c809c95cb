//! Sets: one section each, whole elements, and what is known of the elements themselves.

use std::collections::BTreeMap;

use crate::check::finding::{Findings, Problem};
use crate::check::image::{Image, Section, Target};
use crate::link::is_set;

/// linkme's counters of declarations, one word for each.
const DECLARATIONS: &str = "linkm2_";
/// FreeBSD's sets of pointers (`sys/sys/linker_set.h`).
const POINTERS: &str = "set_";
/// The one set of FreeBSD's that holds its elements themselves: they are sites.
pub(crate) const TRACEPOINTS: &str = "set_sdt_tracepoint_set";

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    let mut count = BTreeMap::<&str, usize>::new();
    for section in image.loaded().filter(|section| is_set(&section.name)) {
        *count.entry(&section.name).or_default() += 1;
        if section.name.starts_with(DECLARATIONS) && section.size != 8 {
            findings.section(&section.name, Problem::DeclaredTwice(section.size / 8));
        }
        if section.name.starts_with(POINTERS) && section.name != TRACEPOINTS {
            pointers(image, section, findings);
        }
    }
    for (name, count) in count.into_iter().filter(|&(_, count)| count > 1) {
        findings.section(name, Problem::SplitSet(count));
    }
}

fn pointers(image: &Image<'_>, section: &Section<'_>, findings: &mut Findings) {
    if !whole(section, "pointers", 8, 8, findings) {
        return;
    }
    for offset in (0..section.size).step_by(8) {
        if image.address(section, offset).is_none() {
            findings.offset(&section.name, offset, Problem::NotAddress("an element"));
        }
    }
}

/// The elements of a set of pointers: where each is, and what it points to. Those that point nowhere are
/// reported by [`check`].
pub(super) fn elements<'a>(
    image: &'a Image<'_>,
    set: &'a str,
) -> impl Iterator<Item = (&'a str, u64, Target)> {
    image.named(set).flat_map(move |section| {
        let offsets = (0..section.size).step_by(8);
        offsets.filter_map(move |offset| {
            Some((&*section.name, offset, image.address(section, offset)?))
        })
    })
}

/// Whether a section is a whole number of elements, aligned for them.
pub(crate) fn whole(
    section: &Section<'_>,
    element: &'static str,
    each: u64,
    align: u64,
    findings: &mut Findings,
) -> bool {
    if section.align < align {
        let problem = Problem::SetAlignment { found: section.align, element, expected: align };
        findings.section(&section.name, problem);
    }
    if !section.size.is_multiple_of(each) || section.data.len() as u64 != section.size {
        findings.section(&section.name, Problem::SetSize { size: section.size, element, each });
        return false;
    }
    true
}
