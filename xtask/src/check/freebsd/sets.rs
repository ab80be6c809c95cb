//! Sets: one section each, whole elements, and what is known of the elements themselves.

use std::collections::BTreeMap;

use crate::check::finding::{Findings, Problem};
use crate::check::image::{Image, Section};
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
    // The kernel sorts SYSINITs through a pointer in each (`struct sysinit`, `sys/sys/kernel.h`).
    let written = matches!(&*section.name, "set_sysinit_set" | "set_sysuninit_set");
    for offset in (0..section.size).step_by(8) {
        let Some(target) = image.address(section, offset) else {
            findings.offset(&section.name, offset, Problem::NotAddress("an element"));
            continue;
        };
        let home = image.section_of(target);
        if written && !home.is_writable() {
            let section_name = home.name.clone();
            let problem = Problem::WrongMemory {
                what: "a struct sysinit",
                section: section_name,
                expected: "writable",
            };
            findings.offset(&section.name, offset, problem);
        }
    }
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
