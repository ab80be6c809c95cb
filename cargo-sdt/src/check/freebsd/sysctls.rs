//! Sysctls: `struct sysctl_oid` of `sys/sys/sysctl.h`. The kernel puts each into its parent's list when it has loaded the
//! file (`linker_file_register_sysctls` of `sys/kern/kern_linker.c`), and believes what is there.

use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::image::{Image, Section, Target};

pub(super) const SET: &str = "set_sysctl_set";

/// Bytes of the smaller form, that of 10: since 11 it begins with the list of a node's children.
const SIZE: u64 = 80;
const PARENTS: [u64; 2] = [0, 8];
/// Where the name is, behind the parent: siblings are a list, and since 14 a tree (`SLIST_ENTRY`, `RB_ENTRY`).
const NAMES: [u64; 2] = [40, 56];

pub(super) fn check(image: &Image<'_>, section: &Section<'_>, findings: &mut Findings) {
    for offset in section.elements(8) {
        // An element that is no address is reported with the others, and what another module has is its own.
        let problem = image.address(section, offset).and_then(|oid| problem(image, oid));
        if let Some(problem) = problem {
            findings.offset(&section.name, offset, problem);
        }
    }
}

fn problem(image: &Image<'_>, oid: Target) -> Option<Problem> {
    let what = "a struct sysctl_oid";
    let home = image.section_of(oid);
    if home.is_code() || !home.is_writable() {
        let section = home.name.clone();
        return Some(Problem::WrongMemory { what, section, expected: "writable data" });
    }
    if home.bytes(oid.offset, SIZE).is_none() {
        return Some(Problem::RecordOutside { what, size: SIZE });
    }
    let is_named = |parent: u64| {
        let at = oid.offset.wrapping_add(parent);
        let is_name = |name: u64| {
            image.address(home, at.wrapping_add(name)).and_then(|name| image.string(name)).is_some()
        };
        image.points(home, at) && NAMES.into_iter().any(is_name)
    };
    (!PARENTS.into_iter().any(is_named))
        .then_some(Problem::NotAddress("the parent or the name of a struct sysctl_oid"))
}
