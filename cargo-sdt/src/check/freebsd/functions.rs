//! Checks words that must be addresses of functions. After loading a file and before unloading it, the kernel calls the
//! address in each non-zero word of its constructor and destructor sections (`link_elf_invoke_cbs` of
//! `sys/kern/link_elf_obj.c` and `sys/kern/link_elf.c`).

use object::elf;

use crate::check::elf::{Elf, Section};
use crate::check::functions::Functions;
use crate::check::record::Record;
use crate::check::rules::Rule;

/// Bytes of a pointer.
const WORD: u64 = 8;
/// Sections that the loader knows by their names, whatever their types.
const NAMES: [&str; 4] = [".ctors", ".dtors", ".init_array", ".fini_array"];

/// Checks the constructors and destructors.
pub(super) fn check_constructors(elf: &Elf<'_>, functions: &Functions<'_>) {
    for section in elf.loaded().filter(|section| is_called(section)) {
        if section.is_code() || !section.size.is_multiple_of(WORD) {
            elf.findings.section(&section.name, Rule::NotConstructors, &[]);
            continue;
        }
        let record = |offset| Record { elf, home: section, offset };
        let is_function =
            |at: u64| at.is_multiple_of(WORD) && is_function(record(at), 0, functions, false);
        let relocated = section.relocations.iter().map(|of| of.offset);
        let strays = relocated.filter(|&at| !is_function(at));
        let numbers = section
            .elements(WORD as usize)
            .filter(|&at| !record(at).is_relocated(0) && section.u64(at) != Some(0));
        for at in strays.chain(numbers) {
            let what = "a constructor or destructor";
            elf.findings.offset(&section.name, at, Rule::NotFunction, &[&what]);
        }
    }
}

/// Returns whether the kernel calls the addresses in a section.
fn is_called(section: &Section<'_>) -> bool {
    matches!(section.kind, elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY)
        || NAMES.contains(&&*section.name)
}

/// Returns whether a member is the address of a function of this module or another one. With `or_none`, 0 and weak
/// symbols are allowed, too.
pub(super) fn is_function(
    record: Record<'_, '_>,
    member: u64,
    functions: &Functions<'_>,
    or_none: bool,
) -> bool {
    if let Some(target) = record.address(member) {
        let known = functions.are_known_in(target.section);
        return record.elf.section_of(target).is_code() && (!known || functions.starts_at(target));
    }
    match record.import(member) {
        Some(symbol) => or_none || !symbol.is_weak(),
        None => or_none && record.is_null(member),
    }
}
