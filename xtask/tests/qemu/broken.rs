//! Modules that no kernel must load, made from the good one.

use object::build::elf::{Builder, Relocation, SectionData};
use object::elf;

use crate::bench::module;

/// The example module after a change.
fn changed(change: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
    let good = module();
    let mut builder = Builder::read(&*good).expect("the example module can be read");
    change(&mut builder);
    let mut image = Vec::new();
    builder.write(&mut image).expect("the changed module can be written");
    image
}

/// A relocation of the text's is of a type that the loader does not know.
pub(crate) fn bad_relocation() -> Vec<u8> {
    changed(|builder| {
        let relocations = relocations(builder, b".rela.text");
        relocations[0].r_type = elf::R_X86_64_GOTPCREL;
    })
}

/// A symbol that the module needs is nowhere.
pub(crate) fn unknown_symbol() -> Vec<u8> {
    changed(|builder| {
        let mut symbols = builder.symbols.iter_mut();
        let symbol = symbols.find(|symbol| *symbol.name == *b"dtrace_probe").expect("it is used");
        symbol.name = b"no_such_symbol"[..].into();
    })
}

/// The set of sites is no whole number of records.
pub(crate) fn ragged_sites() -> Vec<u8> {
    changed(|builder| bytes(builder, b"sdt_sites").extend([0; 8]))
}

/// A probe record says that it has another size.
pub(crate) fn other_record_version() -> Vec<u8> {
    changed(|builder| bytes(builder, b"linkme_SDT_PROBES")[0] += 8)
}

fn relocations<'a>(builder: &'a mut Builder<'_>, name: &[u8]) -> &'a mut Vec<Relocation> {
    let section = builder.sections.iter_mut().find(|section| *section.name == *name);
    match &mut section.expect("the module has the section").data {
        SectionData::Relocation(relocations) => relocations,
        other => panic!("no relocations: {other:?}"),
    }
}

fn bytes<'a>(builder: &'a mut Builder<'_>, name: &[u8]) -> &'a mut Vec<u8> {
    // The last loaded section with bytes may grow where it is; any other one has to move behind it.
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
