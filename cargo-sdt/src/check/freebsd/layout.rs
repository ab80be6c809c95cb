//! Sections: types, protections, alignment.
//!
//! What a relocatable file has more than these types the loader would leave out; a shared object has tables,
//! too, and its loader does not look at sections.

use std::collections::BTreeMap;

use object::elf;

use crate::arch::ModuleKind;
use crate::check::finding::{self, Findings};
use crate::check::image::{Home, Image};
use crate::check::layout;

/// What `link_elf_load_file` of `sys/kern/link_elf_obj.c` maps.
const MAPPED: [elf::SectionType; 5] = [
    elf::SHT_PROGBITS,
    elf::SHT_NOBITS,
    elf::SHT_X86_64_UNWIND,
    elf::SHT_INIT_ARRAY,
    elf::SHT_FINI_ARRAY,
];

/// Sets whose elements C does not align (`sys/sys/sdt.h`), which amd64 does not mind.
const TABLES: [&str; 1] = [super::sets::TRACEPOINTS];

/// The loader has whole pages, and makes masks of alignments in `int`. Where it did not get the alignment by chance,
/// sections end behind its memory.
const PAGE: u64 = 4096;

pub(crate) fn check(image: &Image<'_>, file: &[u8], findings: &mut Findings) {
    let relocatable = image.arch.module_kind() == ModuleKind::Relocatable;
    for (index, section) in image.sections.iter().enumerate().filter(|(_, of)| of.is_loaded()) {
        let name = &section.name;
        // One that is empty is passed over, whatever it is, and so are notes, if nothing is in them that is used.
        let unused = section.size == 0 || section.kind == elf::SHT_NOTE && !image.is_used(index);
        if relocatable && !MAPPED.contains(&section.kind) && !unused {
            findings.section(name, finding::Problem::SectionType(section.kind.0));
        }
        if section.is_writable() && section.is_code() {
            findings.section(name, finding::Problem::WritableCode);
        }
        if section.flags.contains(elf::SHF_TLS) {
            findings.section(name, finding::Problem::ThreadLocal);
        }
        if !section.align.is_power_of_two() {
            findings.section(name, finding::Problem::Alignment(section.align));
        } else if section.align > PAGE {
            let problem = finding::Problem::AlignmentTooLarge { found: section.align, most: PAGE };
            findings.section(name, problem);
        }
        if relocatable && !section.is_code() && !TABLES.contains(&&**name) {
            let addresses = section.relocations.iter();
            let addresses = addresses.filter(|(_, of)| of.kind == elf::R_X86_64_64);
            layout::alignment(name, section.align, addresses.map(|(&at, _)| at), findings);
        }
    }
    if relocatable {
        layout::memory(image.loaded().map(|section| section.size), findings);
        layout::check(file, findings);
        let sizes: BTreeMap<_, _> = image
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| section.is_loaded())
            .map(|(index, section)| (index, (&*section.name, section.size)))
            .collect();
        let defined = image.all_symbols().filter_map(|symbol| match symbol.home {
            Home::Section(section) => Some((&*symbol.name, Some(section), symbol.value)),
            Home::Absolute => Some((&*symbol.name, None, symbol.value)),
            Home::Undefined | Home::Common => None,
        });
        layout::bounds(defined, &sizes, findings);
    }
}
