//! Sections: types, protections, alignment.

use object::elf;

use super::finding::{Findings, Problem};
use super::image::Image;

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
        if !MAPPED.contains(&section.kind) {
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
