//! Sections: types, protections, alignment.
//!
//! What a relocatable file has more than these types the loader would leave out; a shared object has tables,
//! too, and its loader does not look at sections.

use object::elf;

use crate::arch::ModuleKind;
use crate::check::finding::{Findings, Problem};
use crate::check::image::Image;

/// What `link_elf_load_file` of `sys/kern/link_elf_obj.c` maps.
const MAPPED: [elf::SectionType; 5] = [
    elf::SHT_PROGBITS,
    elf::SHT_NOBITS,
    elf::SHT_X86_64_UNWIND,
    elf::SHT_INIT_ARRAY,
    elf::SHT_FINI_ARRAY,
];

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    for section in image.loaded() {
        let name = &section.name;
        let relocatable = image.arch.module_kind() == ModuleKind::Relocatable;
        if relocatable && !MAPPED.contains(&section.kind) {
            findings.section(name, Problem::SectionType(section.kind.0));
        }
        if section.is_writable() && section.is_code() {
            findings.section(name, Problem::WritableCode);
        }
        if section.flags.contains(elf::SHF_TLS) {
            findings.section(name, Problem::ThreadLocal);
        }
        if !section.align.is_power_of_two() {
            findings.section(name, Problem::Alignment(section.align));
        }
    }
}
