//! Modules that no kernel must load, made from the good one with a provider of its own.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::arch::ModuleKind;
use cargo_sdt::internal::link::SEAL;
use cargo_sdt::internal::platform::Route;
use object::build::elf::{Builder, Relocation, SectionData};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, elf};

use crate::bench::module_by;

/// A symbol that no file exports, as long as the symbol that it replaces.
pub(crate) const UNKNOWN: &str = "no_such_name";
const USED: &str = "dtrace_probe";

/// A relocation type that no loader knows.
const UNKNOWN_TYPE: u32 = 9;

fn good(arch: Arch) -> Vec<u8> {
    unsealed(module_by(arch, Route::Provider))
}

/// Removes a module's seal, so that only the rules apply to it, and loading needs all its bytes.
pub(crate) fn unsealed(mut image: Vec<u8>) -> Vec<u8> {
    image.truncate(image.len() - SEAL);
    image
}

/// Returns a module with a relocation of a type that the loader does not support.
pub(crate) fn bad_relocation(arch: Arch) -> Vec<u8> {
    match arch.module_kind() {
        ModuleKind::Relocatable => changed(arch, |builder| {
            let relocations = relocations(builder, b".rela.text");
            relocations[0].r_type = elf::RelocationType(UNKNOWN_TYPE);
        }),
        ModuleKind::Shared => {
            let mut image = good(arch);
            let at = place(&image, ".rela.dyn");
            image[at + 8..at + 12].copy_from_slice(&UNKNOWN_TYPE.to_le_bytes());
            image
        }
    }
}

/// Returns a module that needs a symbol which does not exist.
pub(crate) fn unknown_symbol(arch: Arch) -> Vec<u8> {
    let mut image = good(arch);
    let table = match arch.module_kind() {
        ModuleKind::Relocatable => ".strtab",
        ModuleKind::Shared => ".dynstr",
    };
    let start = place(&image, table);
    let name = format!("\0{USED}\0");
    let found = image[start..].windows(name.len()).position(|at| at == name.as_bytes());
    let at = start + found.expect("it is used") + 1;
    image[at..at + USED.len()].copy_from_slice(UNKNOWN.as_bytes());
    image
}

/// Returns a module in which the size of the set of sites is not a multiple of the record size.
pub(crate) fn ragged_sites(arch: Arch) -> Vec<u8> {
    match arch.module_kind() {
        ModuleKind::Relocatable => {
            changed(arch, |builder| bytes(builder, b"sdt_sites").extend([0; 8]))
        }
        ModuleKind::Shared => {
            let mut image = good(arch);
            let bound = stop_of_sites(&image);
            let table = place(&image, ".rela.dyn");
            let entries = image[table..].as_chunks_mut::<24>().0.iter_mut();
            let mut of_bound = entries.filter(|entry| entry.starts_with(&bound.to_le_bytes()));
            // The addend: one word more.
            of_bound.next().expect("the bound is relocated")[16] += 8;
            image
        }
    }
}

/// Returns the offset at which a shared object stores the end of the set of sites: the second word of a table of
/// bounds.
fn stop_of_sites(image: &[u8]) -> u64 {
    let file = object::File::parse(image).expect("the example module can be read");
    let table = file.symbols().find(|symbol| symbol.name() == Ok("__sdt_bounds"));
    table.expect("the bounds have a symbol").address() + 8
}

/// Returns a module with a probe record that contains another size.
pub(crate) fn other_record_version(arch: Arch) -> Vec<u8> {
    let mut image = good(arch);
    let at = place(&image, "linkme_SDT_PROBES");
    image[at] += 8;
    image
}

/// The number of bytes of a file that loading requires: all, or the mapped part.
pub(crate) fn needed(image: &[u8]) -> usize {
    let header = elf::FileHeader64::<Endianness>::parse(image).expect("it is ELF");
    let endian = Endianness::Little;
    let segments = header.program_headers(endian, image).expect("the headers are there");
    let ends = segments.iter().map(|segment| segment.p_offset(endian) + segment.p_filesz(endian));
    ends.max().map_or(image.len(), |end| usize::try_from(end).expect("files are small"))
}

/// Returns the offset of a section in the file.
fn place(image: &[u8], name: &str) -> usize {
    let file = object::File::parse(image).expect("the example module can be read");
    let section = file.section_by_name(name).unwrap_or_else(|| panic!("no section {name}"));
    usize::try_from(section.file_range().expect("it has bytes").0).expect("files are small")
}

/// The example module after a change, laid out anew.
fn changed(arch: Arch, change: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
    let good = good(arch);
    let mut builder = Builder::read(&*good).expect("the example module can be read");
    change(&mut builder);
    let mut image = Vec::new();
    builder.write(&mut image).expect("the changed module can be written");
    image
}

fn relocations<'a>(builder: &'a mut Builder<'_>, name: &[u8]) -> &'a mut Vec<Relocation> {
    let section = builder.sections.iter_mut().find(|section| *section.name == *name);
    match &mut section.expect("the module has the section").data {
        SectionData::Relocation(relocations) => relocations,
        other => panic!("no relocations: {other:?}"),
    }
}

fn bytes<'a>(builder: &'a mut Builder<'_>, name: &[u8]) -> &'a mut Vec<u8> {
    // The last loaded section with bytes can grow in place; any other one must be moved after it.
    let end = builder
        .sections
        .iter()
        .filter(|section| section.is_alloc())
        .map(|section| section.sh_offset + section.sh_size)
        .max();
    let section = builder.sections.iter_mut().find(|section| *section.name == *name);
    let section = section.expect("the module has the section");
    section.sh_offset = end.unwrap_or_default().next_multiple_of(4096);
    match &mut section.data {
        SectionData::Data(data) => data.to_mut(),
        other => panic!("no bytes: {other:?}"),
    }
}
