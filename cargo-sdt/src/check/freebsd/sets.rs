//! Sets: one section each, whole elements, and what is known of the elements themselves.

use std::collections::BTreeMap;

use super::sysctls;
use crate::check::finding::{self, Findings};
use crate::check::freebsd::Problem;
use crate::check::image::{Image, Section, Target};
use crate::link::is_set;

/// linkme's counters of declarations, one word for each.
const DECLARATIONS: &str = "linkm2_";
/// FreeBSD's sets of pointers (`sys/sys/linker_set.h`).
const POINTERS: &str = "set_";
/// The set that holds sites themselves.
pub(crate) const TRACEPOINTS: &str = "set_sdt_tracepoint_set";
/// Sets of variables of each CPU and of each network stack, of which the kernel makes copies (`sys/sys/pcpu.h`,
/// `sys/net/vnet.h`).
const VARIABLES: [&str; 2] = ["set_pcpu", "set_vnet"];
/// Sets whose records the loader takes out of this module itself.
const OWN: [&str; 6] = [
    "set_modmetadata_set",
    "set_sysinit_set",
    "set_sysuninit_set",
    "set_sdt_providers_set",
    "set_sdt_probes_set",
    "set_sdt_argtypes_set",
];

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    let mut count = BTreeMap::<&str, usize>::new();
    for section in image.loaded().filter(|section| is_set(&section.name)) {
        *count.entry(&section.name).or_default() += 1;
        if section.name.starts_with(DECLARATIONS) && section.size != 8 {
            findings.section(&section.name, Problem::DeclaredTwice(section.size / 8));
        }
        if section.name == sysctls::SET {
            sysctls::check(image, section, findings);
        }
        let itself = section.name == TRACEPOINTS || VARIABLES.contains(&&*section.name);
        if section.name.starts_with(POINTERS) && !itself {
            pointers(image, section, findings);
        }
    }
    for (name, count) in count.into_iter().filter(|&(_, count)| count > 1) {
        findings.section(name, finding::Problem::SplitSet(count));
    }
}

fn pointers(image: &Image<'_>, section: &Section<'_>, findings: &mut Findings) {
    if !whole(section, "pointers", 8, 8, findings) {
        return;
    }
    for offset in section.elements(8) {
        let own = OWN.contains(&&*section.name);
        let there = if own {
            image.address(section, offset).is_some()
        } else {
            image.points(section, offset)
        };
        if !there {
            let weak = image.is_weak_import(section, offset);
            let problem = if weak { Problem::WeakAddress } else { Problem::NotAddress };
            findings.offset(&section.name, offset, problem("an element"));
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
        section.elements(8).filter_map(move |offset| {
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
    let found = section.data.len() as u64;
    if found != section.size {
        findings
            .section(&section.name, finding::Problem::SetNotInFile { size: section.size, found });
        return false;
    }
    if !section.size.is_multiple_of(each) {
        findings.section(&section.name, Problem::SetSize { size: section.size, element, each });
        return false;
    }
    true
}
