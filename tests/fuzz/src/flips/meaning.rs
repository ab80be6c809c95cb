//! The effect of a module's file: memory after relocation, functions, sets and sites. Two files with the same effect are the
//! same module to the kernel.

use std::collections::BTreeSet;

use stand_in_base::image::{Image, Protection};
use stand_in_freebsd::loader;
use stand_in_illumos::file;
use stand_in_illumos::marking::Marking;

use super::Kind;
use super::change::section_table;
use crate::memory::MODULES;

/// The first difference between the effects of two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// A real kernel would have panicked.
    Panic,
    /// Sizes or protections of memory differ.
    Layout,
    /// Elements of sets, sites, entry points or constructors differ.
    Tables,
    /// Addresses or sizes of functions, which fbt uses, differ.
    Functions,
    /// Bytes of code differ.
    Code,
    /// Bytes of data differ.
    Data,
}

/// The effect of a file.
pub(super) struct Meaning {
    image: Image,
    functions: BTreeSet<(u64, u64)>,
    tables: Vec<(String, Vec<u64>)>,
}

impl Meaning {
    /// Compares a module with a changed copy. Returns the difference and its place.
    pub(super) fn difference(kind: Kind, was: &[u8], is: &[u8]) -> Option<(Difference, String)> {
        let was = Self::of(kind, &aligned_like(was, is))?;
        let is = Self::of(kind, is)?;
        if was.image.segments() != is.image.segments() {
            return Some((Difference::Layout, format!("{:x?}", is.image.segments())));
        }
        if let Some((was, is)) = was.tables.iter().zip(&is.tables).find(|(was, is)| was != is) {
            return Some((Difference::Tables, format!("{was:x?} became {is:x?}")));
        }
        let mut bytes = was.image.bytes().iter().zip(is.image.bytes());
        if let Some(at) = bytes.position(|(was, is)| was != is) {
            let code = is.image.segments().iter().any(|segment| {
                let inside = (segment.offset..segment.offset + segment.size).contains(&at);
                inside && segment.protection == Protection::Execute
            });
            let difference = if code { Difference::Code } else { Difference::Data };
            return Some((difference, format!("at {at:#x} of memory")));
        }
        let function = was.functions.symmetric_difference(&is.functions).next();
        function.map(|function| (Difference::Functions, format!("{function:x?}")))
    }

    /// Links a file; returns `None` if the linker refuses it.
    fn of(kind: Kind, file: &[u8]) -> Option<Self> {
        match kind {
            Kind::FreeBsd(machine, _) => {
                let linked = loader::File::parse(file, machine).ok()?;
                let linked = linked.link(MODULES, &symbol).ok()?;
                let functions = linked.functions().iter().map(|of| (of.address, of.size)).collect();
                let sets = [
                    "modmetadata_set",
                    "sysinit_set",
                    "sysuninit_set",
                    "sdt_providers_set",
                    "sdt_probes_set",
                    "sdt_argtypes_set",
                    "sdt_tracepoint_set",
                    "sysctl_set",
                ];
                // The elements of a set have no order.
                let sorted = |set| {
                    let mut elements: Vec<_> = linked.set(set).collect();
                    elements.sort_unstable();
                    (set.to_owned(), elements)
                };
                let mut tables = sets.map(sorted).to_vec();
                tables.push(("constructors".into(), linked.constructors().collect()));
                tables.push(("destructors".into(), linked.destructors().collect()));
                let sites = linked.sites().into_iter();
                let sites = sites.flat_map(|of| [of.probe, of.patchpoint, of.target]).collect();
                tables.push(("sites".into(), sites));
                Some(Self { image: (*linked).clone(), functions, tables })
            }
            Kind::Illumos => {
                let linked = file::File::parse(file).ok()?;
                let linked = linked.link(MODULES, Marking::default(), &symbol).ok()?;
                let functions = linked.symbols.iter().filter(|of| of.kind.0 == 2);
                let functions = functions.map(|of| (of.value, of.size)).collect();
                let entries = ["_init", "_info", "_fini"]
                    .map(|name| (name.to_owned(), linked.lookup(name).into_iter().collect()));
                let mut tables = Vec::from(entries);
                let sites = linked.sites.iter();
                tables.extend(sites.map(|site| (site.name.clone(), vec![site.address])));
                Some(Self { image: linked.image, functions, tables })
            }
        }
    }
}

/// Gives every symbol of the kernel an address of its own, less than two gigabytes from modules.
fn symbol(name: &str) -> Option<u64> {
    let hash = name
        .bytes()
        .fold(0_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (!name.starts_with(stand_in_illumos::PREFIX))
        .then_some(0xffff_ffff_a000_0000 + (hash >> 32 & 0xff_ffff) * 16)
}

/// Returns a file with the alignments of another one: where a section starts does not change its contents.
fn aligned_like(file: &[u8], other: &[u8]) -> Vec<u8> {
    let (mut file, table) = (file.to_vec(), section_table(file));
    for header in table.step_by(64).filter(|&header| other.len() >= header + 64) {
        file[header + 48..header + 56].copy_from_slice(&other[header + 48..header + 56]);
    }
    file
}
