//! Functions that the kernel calls when it has loaded a file, and before it unloads it (`link_elf_invoke_cbs` of
//! `sys/kern/link_elf_obj.c` and `sys/kern/link_elf.c`): every word that is not 0 is called.

use object::elf;

use super::metadata::function_at;
use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::functions::Functions;
use crate::check::image::{Image, Section};

/// Bytes of a pointer.
const WORD: u64 = 8;
/// Sections that the loader knows by their names, whatever their types.
const NAMES: [&str; 4] = [".ctors", ".dtors", ".init_array", ".fini_array"];

pub(crate) fn check(image: &Image<'_>, functions: &Functions<'_>, findings: &mut Findings) {
    for section in image.loaded().filter(|section| is_called(section)) {
        if section.is_code() || !section.size.is_multiple_of(WORD) {
            findings.section(&section.name, Problem::NotConstructors);
            continue;
        }
        let relocated = section.relocations.keys().copied();
        let is_function =
            |at: u64| at.is_multiple_of(WORD) && function_at(image, functions, section, at, false);
        let strays = relocated.filter(|&at| !is_function(at));
        let numbers = section
            .elements(WORD as usize)
            .filter(|at| !section.relocations.contains_key(at) && section.u64(*at) != Some(0));
        for at in strays.chain(numbers) {
            findings.offset(&section.name, at, Problem::NotFunction("a constructor or destructor"));
        }
    }
}

/// Whether the kernel calls what is in a section.
fn is_called(section: &Section<'_>) -> bool {
    matches!(section.kind, elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY)
        || NAMES.contains(&&*section.name)
}
