//! SYSINITs: `struct sysinit` of `sys/sys/kernel.h`, in the form of the module's release.

use std::fmt::Display;

use super::functions::is_function;
use super::metadata::Metadata;
use super::sets::elements;
use crate::check::elf::Elf;
use crate::check::functions::Functions;
use crate::check::record::Record;
use crate::check::rules::Rule;
use crate::platform::FreeBsd;

const SETS: [&str; 2] = ["set_sysinit_set", "set_sysuninit_set"];
/// Offset of the function up to 13; in later releases this is the link of the kernel's list.
const FUNCTION_OR_LINK: u64 = 8;
/// Offset of the function since 14.
const FUNCTION: u64 = 16;
/// Sizes of both forms.
const UNLINKED: u64 = 24;
const LINKED: u64 = 32;

/// Offset of the function's argument from the function.
const ARGUMENT: u64 = 8;
/// `SI_SUB_DUMMY`: never run.
const DUMMY: u32 = 0;
/// The function that starts a module, whose `moduledata_t` is its argument.
const REGISTER: &str = "module_register_init";

pub(super) fn check(
    elf: &Elf<'_>,
    release: FreeBsd,
    metadata: &Metadata,
    functions: &Functions<'_>,
) {
    let mut started = Vec::new();
    for set in SETS {
        for (name, offset, at) in elements(elf, set) {
            let record = Record::new(elf, at);
            let wrong = |rule, details: &[&dyn Display]| {
                elf.findings.offset(name, offset, rule, details);
            };
            if !is_sound(record, release, functions, &wrong) || !registers(record) {
                continue;
            }
            let argument = release.sysinit_size() - 16 + ARGUMENT;
            match record.address(argument).filter(|at| metadata.records.contains(at)) {
                _ if set != SETS[0] => {
                    wrong(Rule::Registers, &[&"runs at unload, after all modules are removed"]);
                }
                None => wrong(Rule::Registers, &[&"is not a module of this file"]),
                Some(module) if started.contains(&module) => {
                    wrong(Rule::Registers, &[&"has been started already"]);
                }
                Some(module) => started.push(module),
            }
        }
    }
}

/// Returns the size that the records of a module have, if there are any.
pub(super) fn size(elf: &Elf<'_>) -> Option<u64> {
    let mut all = SETS.into_iter().flat_map(|set| elements(elf, set));
    all.find_map(|(_, _, at)| form(Record::new(elf, at)))
}

/// Returns the size of a record, by the place of its function.
fn form(record: Record<'_, '_>) -> Option<u64> {
    if record.is_relocated(FUNCTION_OR_LINK) {
        Some(UNLINKED)
    } else {
        record.is_relocated(FUNCTION).then_some(LINKED)
    }
}

/// Returns whether a record starts a module.
fn registers(record: Record<'_, '_>) -> bool {
    let function = form(record).and_then(|size| record.import(size - 16));
    let strong = function.is_some_and(|of| !of.is_weak() && of.name == REGISTER);
    strong && record.u32(0) != Some(DUMMY)
}

/// Returns whether a record has the form of the release; reports a breach.
fn is_sound(
    record: Record<'_, '_>,
    release: FreeBsd,
    functions: &Functions<'_>,
    wrong: &dyn Fn(Rule, &[&dyn Display]),
) -> bool {
    let (what, function) = ("a struct sysinit", "the function of a struct sysinit");
    let expected = release.sysinit_size();
    let Some(found) = form(record).filter(|_| record.home.is_writable()) else {
        match record.home.is_writable() {
            true => wrong(Rule::NotAddress, &[&function]),
            false => wrong(Rule::WrongMemory, &[&what, &record.home.name, &"writable"]),
        }
        return false;
    };
    let target = record.record(found - 16);
    let runs = record.u32(0) != Some(DUMMY);
    let weak = record.import(found - 16).is_some_and(|of| of.is_weak());
    match target.filter(|target| !target.home.is_code()) {
        Some(data) => wrong(Rule::WrongMemory, &[&function, &data.home.name, &"executable"]),
        None if found != expected => wrong(Rule::SysInit, &[&found, &release, &expected]),
        None if record.home.bytes(record.offset, expected).is_none() => {
            wrong(Rule::RecordOutside, &[&expected, &what]);
        }
        None if found == LINKED && record.u64(FUNCTION_OR_LINK) != Some(0) => {
            wrong(Rule::NotZero, &[&"the link of a struct sysinit"]);
        }
        None if runs && weak => wrong(Rule::WeakAddress, &[&function]),
        None if runs && !is_function(record, found - 16, functions, false) => {
            wrong(Rule::NotFunction, &[&function]);
        }
        None => return true,
    }
    false
}
