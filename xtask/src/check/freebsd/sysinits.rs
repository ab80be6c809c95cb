//! SYSINITs: `struct sysinit` of `sys/sys/kernel.h`, in the form of the module's release.

use super::sets::elements;
use crate::check::finding::{Findings, Problem};
use crate::check::image::{Image, Target};
use crate::platform::FreeBsd;

const SETS: [&str; 2] = ["set_sysinit_set", "set_sysuninit_set"];
/// Where the function is in the form of 13 and before; later, this is the link of the kernel's list.
const FUNCTION_OR_LINK: u64 = 8;
/// Where the function is since 14.
const FUNCTION: u64 = 16;
/// Sizes of both forms.
const UNLINKED: u64 = 24;
const LINKED: u64 = 32;

pub(crate) fn check(image: &Image<'_>, release: FreeBsd, findings: &mut Findings) {
    for set in SETS {
        for (set, offset, target) in elements(image, set) {
            if let Some(problem) = problem(image, release, target) {
                findings.offset(set, offset, problem);
            }
        }
    }
}

fn problem(image: &Image<'_>, release: FreeBsd, at: Target) -> Option<Problem> {
    let home = image.section_of(at);
    if !home.is_writable() {
        let section = home.name.clone();
        let what = "a struct sysinit";
        return Some(Problem::WrongMemory { what, section, expected: "writable" });
    }
    let has_pointer = |offset| home.relocations.contains_key(&at.offset.wrapping_add(offset));
    let (found, function) = if has_pointer(FUNCTION_OR_LINK) {
        (UNLINKED, FUNCTION_OR_LINK)
    } else if has_pointer(FUNCTION) {
        (LINKED, FUNCTION)
    } else {
        return Some(Problem::NotAddress("the function of a struct sysinit"));
    };
    let function = image.address(home, at.offset.wrapping_add(function));
    if let Some(function) = function.map(|function| image.section_of(function))
        && !function.is_code()
    {
        let (what, section) = ("the function of a struct sysinit", function.name.clone());
        return Some(Problem::WrongMemory { what, section, expected: "executable" });
    }
    let expected = release.sysinit_size();
    if found != expected {
        return Some(Problem::SysInit { found, release, expected });
    }
    if home.bytes(at.offset, expected).is_none() {
        return Some(Problem::RecordOutside { what: "a struct sysinit", size: expected });
    }
    let linked = home.u64(at.offset.wrapping_add(FUNCTION_OR_LINK)) != Some(0);
    (found == LINKED && linked).then_some(Problem::NotZero("the link of a struct sysinit"))
}
