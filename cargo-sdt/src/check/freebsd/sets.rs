//! Checks sets: each must consist of whole elements, which follow the rules of their kind.

use std::fmt::Display;

use crate::check::elf::{Elf, Section, Target};
use crate::check::finding::Hex;
use crate::check::names::TRACEPOINTS;
use crate::check::record::Record;
use crate::check::rules::Rule;
use crate::link::is_set;

/// linkme's counters of declarations, one word for each.
const DECLARATIONS: &str = "linkm2_";
/// FreeBSD's sets of pointers (`sys/sys/linker_set.h`).
const POINTERS: &str = "set_";
/// Sets that contain no pointers: sites, and the variables per CPU and per network stack, which the kernel copies
/// (`sys/sys/pcpu.h`, `sys/net/vnet.h`).
const NO_POINTERS: [&str; 3] = [TRACEPOINTS, "set_pcpu", "set_vnet"];
/// Sets whose records the loader reads from this module itself.
const OWN: [&str; 6] = [
    "set_modmetadata_set",
    "set_sysinit_set",
    "set_sysuninit_set",
    "set_sdt_providers_set",
    "set_sdt_probes_set",
    "set_sdt_argtypes_set",
];

/// The set of `struct sysctl_oid` (`sys/sys/sysctl.h`). The kernel puts each into its parent's list when it has loaded the file
/// (`linker_file_register_sysctls` of `sys/kern/kern_linker.c`), and trusts its contents.
const SYSCTLS: &str = "set_sysctl_set";
/// Bytes of the smaller form, of FreeBSD 10. Since 11 the struct begins with the list of a node's children.
const SYSCTL: u64 = 80;
const PARENTS: [u64; 2] = [0, 8];
/// Offset of the name, after the parent: siblings are a list, and since 14 a tree (`SLIST_ENTRY`, `RB_ENTRY`).
const NAMES: [u64; 2] = [40, 56];

pub(super) fn check(elf: &Elf<'_>) {
    for section in elf.loaded().filter(|section| is_set(&section.name)) {
        let name = &*section.name;
        if name.starts_with(DECLARATIONS) && section.size != 8 {
            elf.findings.section(name, Rule::DeclaredTwice, &[&(section.size / 8)]);
        }
        if !name.starts_with(POINTERS) || NO_POINTERS.contains(&name) {
            continue;
        }
        if whole(elf, section, "pointers", 8, 8) {
            section.elements(8).for_each(|offset| pointer(elf, section, offset));
        }
    }
}

fn pointer(elf: &Elf<'_>, section: &Section<'_>, offset: u64) {
    let element = Record { elf, home: section, offset };
    let is_record = OWN.contains(&&*section.name) || section.name == SYSCTLS;
    if let Some(record) = element.record(0) {
        if is_record && !record.is_aligned() {
            let (home, offset) = (&record.home.name, Hex(record.offset));
            element.report(0, Rule::Unaligned, &[&"an element", home, &offset]);
        } else if section.name == SYSCTLS {
            sysctl(record, element);
        }
    } else if is_record && section.name != SYSCTLS || !element.points(0) {
        let weak = element.import(0).is_some_and(|of| of.is_weak());
        let rule = if weak { Rule::WeakAddress } else { Rule::NotAddress };
        element.report(0, rule, &[&"an element"]);
    }
}

fn sysctl(oid: Record<'_, '_>, element: Record<'_, '_>) {
    let what = "a struct sysctl_oid";
    let is_named = |parent: u64| {
        oid.points(parent) && NAMES.into_iter().any(|name| oid.string(parent + name).is_some())
    };
    if oid.home.is_code() || !oid.home.is_writable() {
        let section = &oid.home.name;
        element.report(0, Rule::WrongMemory, &[&what, section, &"writable data"]);
    } else if oid.home.bytes(oid.offset, SYSCTL).is_none() {
        element.report(0, Rule::RecordOutside, &[&SYSCTL, &what]);
    } else if !PARENTS.into_iter().any(is_named) {
        let what = "the parent or the name of a struct sysctl_oid";
        element.report(0, Rule::NotAddress, &[&what]);
    }
}

/// Returns the elements of a set of pointers: the section, the element's offset, and the place to which it points. [`check`]
/// reports elements that point nowhere.
pub(super) fn elements<'a>(
    elf: &'a Elf<'_>,
    set: &'a str,
) -> impl Iterator<Item = (&'a str, u64, Target)> {
    elf.named(set).flat_map(move |section| {
        section
            .elements(8)
            .filter_map(move |offset| Some((set, offset, elf.address(section, offset)?)))
    })
}

/// Returns whether a section is a whole number of elements. Reports a violation, and an alignment that is too small for
/// the elements.
pub(super) fn whole(
    elf: &Elf<'_>,
    section: &Section<'_>,
    element: &str,
    each: u64,
    align: u64,
) -> bool {
    let wrong = |rule, details: &[&dyn Display]| {
        elf.findings.section(&section.name, rule, details);
        false
    };
    if section.align < align {
        wrong(Rule::SetAlignment, &[&section.align, &element, &align]);
    }
    let found = section.data.len() as u64;
    if found != section.size {
        return wrong(Rule::SetNotInFile, &[&section.size, &found]);
    }
    if !section.size.is_multiple_of(each) {
        return wrong(Rule::SetSize, &[&section.size, &element, &each]);
    }
    true
}
