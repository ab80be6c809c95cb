//! SYSINITs: `struct sysinit` of `sys/sys/kernel.h`, in the form of the module's release.

use super::metadata::{Metadata, function_at};
use super::sets::elements;
use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::functions::Functions;
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

/// Where what the function is given is, behind it.
const ARGUMENT: u64 = 8;
/// `SI_SUB_DUMMY`: never run.
const DUMMY: u32 = 0;
/// The function that starts a module, whose `moduledata_t` it is given.
const REGISTER: &str = "module_register_init";

pub(crate) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    metadata: &Metadata,
    functions: &Functions<'_>,
    findings: &mut Findings,
) {
    let mut started = Vec::new();
    for set in SETS {
        for (set_name, offset, target) in elements(image, set) {
            let result = sysinit(image, release, functions, target);
            let starts = match result {
                Ok(function) if function.is_some_and(|name| name == REGISTER) => {
                    started_by(image, release, target)
                }
                Ok(_) => continue,
                Err(problem) => {
                    findings.offset(set_name, offset, problem);
                    continue;
                }
            };
            let reason = match starts {
                _ if set != SETS[0] => Some("is unloaded, when all modules are gone"),
                Some(module) if !metadata.records.contains(&module) => {
                    Some("is no module of this file")
                }
                None => Some("is no module of this file"),
                Some(module) if started.contains(&module) => Some("has been started already"),
                Some(module) => {
                    started.push(module);
                    None
                }
            };
            if let Some(reason) = reason {
                findings.offset(set_name, offset, Problem::Registers(reason));
            }
        }
    }
}

/// The size that the records of a module have, if there are any.
pub(super) fn size(image: &Image<'_>) -> Option<u64> {
    SETS.into_iter().flat_map(|set| elements(image, set)).find_map(|(_, _, at)| form(image, at))
}

/// The size of a record, by where it has its function.
fn form(image: &Image<'_>, at: Target) -> Option<u64> {
    let home = image.section_of(at);
    let has_pointer = |offset| home.relocations.contains_key(&at.offset.wrapping_add(offset));
    if has_pointer(FUNCTION_OR_LINK) {
        Some(UNLINKED)
    } else if has_pointer(FUNCTION) {
        Some(LINKED)
    } else {
        None
    }
}

/// What `module_register_init` is given.
fn started_by(image: &Image<'_>, release: FreeBsd, at: Target) -> Option<Target> {
    let function = release.sysinit_size() - 16;
    image.address(image.section_of(at), at.offset.wrapping_add(function + ARGUMENT))
}

/// Checks a record; returns the name of its function, if that is another module's or the kernel's.
fn sysinit<'a>(
    image: &'a Image<'_>,
    release: FreeBsd,
    functions: &Functions<'_>,
    at: Target,
) -> Result<Option<&'a str>, Problem> {
    let home = image.section_of(at);
    if !home.is_writable() {
        let section = home.name.clone();
        let what = "a struct sysinit";
        return Err(Problem::WrongMemory { what, section, expected: "writable" });
    }
    let found = form(image, at);
    let found = found.ok_or(Problem::NotAddress("the function of a struct sysinit"))?;
    let expected = release.sysinit_size();
    let place = at.offset.wrapping_add(found - 16);
    let function = image.address(home, place);
    if let Some(function) = function.map(|function| image.section_of(function))
        && !function.is_code()
    {
        let (what, section) = ("the function of a struct sysinit", function.name.clone());
        return Err(Problem::WrongMemory { what, section, expected: "executable" });
    }
    if found != expected {
        return Err(Problem::SysInit { found, release, expected });
    }
    if home.bytes(at.offset, expected).is_none() {
        return Err(Problem::RecordOutside { what: "a struct sysinit", size: expected });
    }
    if found == LINKED && home.u64(at.offset.wrapping_add(FUNCTION_OR_LINK)) != Some(0) {
        return Err(Problem::NotZero("the link of a struct sysinit"));
    }
    let runs = home.u32(at.offset) != Some(DUMMY);
    if runs && !function_at(image, functions, home, place, false) {
        if image.is_weak_import(home, place) {
            return Err(Problem::WeakAddress("the function of a struct sysinit"));
        }
        return Err(Problem::NotFunction("the function of a struct sysinit"));
    }
    Ok(if runs { image.import(home, place) } else { None })
}
