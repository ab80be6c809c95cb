//! The records of an object for the kernel's sdt, found through its linker sets, in a form that allows comparing C with
//! Rust.
//!
//! A record consists of its bytes without pointers, and of its pointers: the relocation of each, and its target,
//! identified by kind and not by address. The layouts of C's structures give the positions of the fields.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use object::elf::RelocationType;

use crate::layout::Layout;
use crate::unit::{Place, Unit};

/// The size of a pointer.
const POINTER: u64 = 8;
/// The size of `struct sdt_tracepoint`, which its set holds by value.
const TRACEPOINT: u64 = 32;

/// All records that are reachable from the sets, by name.
pub type Records = BTreeMap<Name, Record>;

/// The identity of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A provider, by its name.
    Provider(String),
    /// A probe: provider, module, function, name.
    Probe([String; 4]),
    /// An argument of a probe: the probe, and the index of the argument.
    Argument([String; 4], u32),
    /// A site: its function, and its number among the sites of the function.
    Site(String, usize),
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its bytes, 0 where pointers are.
    pub bytes: Vec<u8>,
    /// Its pointers, by their offset.
    pub pointers: BTreeMap<u64, (RelocationType, Pointee)>,
    /// Whether it is in writable memory.
    pub writable: bool,
}

/// The target of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointee {
    /// A string.
    String(String),
    /// Another record.
    Record(Name),
    /// A site's nop, or its cold code, in a function of this name.
    Code(String),
}

/// A site, for tests that disassemble the code.
#[derive(Clone, Debug)]
pub struct Tracepoint {
    /// The probe it fires.
    pub probe: Name,
    /// The position of its nop.
    pub patchpoint: Place,
    /// The position of its cold code.
    pub target: Place,
}

/// Reads an object's records by the layouts of C's structures.
///
/// # Errors
/// A record has no known layout, or points outside of the object.
pub fn read(unit: &Unit, layouts: &BTreeMap<String, Layout>) -> anyhow::Result<Records> {
    let reader = Reader { unit, layouts };
    let mut records = Records::new();
    let mut add = |name: Name, record: Record| match records.insert(name.clone(), record) {
        None => Ok(()),
        Some(_) => bail!("{name:?} is there twice"),
    };
    for place in reader.set("set_sdt_providers_set")? {
        add(reader.provider(place)?, reader.record(place, "sdt_provider")?)?;
    }
    for place in reader.set("set_sdt_probes_set")? {
        add(reader.probe(place)?, reader.record(place, "sdt_probe")?)?;
    }
    for place in reader.set("set_sdt_argtypes_set")? {
        add(reader.argument(place)?, reader.record(place, "sdt_argtype")?)?;
    }
    let mut of_function = BTreeMap::<String, usize>::new();
    for (place, site) in reader.sites()? {
        let function = reader.function(site.patchpoint)?;
        let count = of_function.entry(function.clone()).or_default();
        let name = Name::Site(function, *count);
        *count += 1;
        add(name, reader.record(place, "sdt_tracepoint")?)?;
    }
    Ok(records)
}

/// An object's sites, in the order of their addresses.
///
/// # Errors
/// A record of a site is invalid.
pub fn sites(unit: &Unit, layouts: &BTreeMap<String, Layout>) -> anyhow::Result<Vec<Tracepoint>> {
    let sites = Reader { unit, layouts }.sites()?;
    Ok(sites.into_iter().map(|(_, site)| site).collect())
}

struct Reader<'a> {
    unit: &'a Unit,
    layouts: &'a BTreeMap<String, Layout>,
}

impl Reader<'_> {
    /// Returns the targets of the elements of a set of pointers.
    fn set(&self, name: &str) -> anyhow::Result<BTreeSet<Place>> {
        let mut elements = BTreeSet::new();
        for (section, start) in self.unit.pieces(name) {
            let len = section.bytes.len() as u64;
            if !len.is_multiple_of(POINTER) || section.align < POINTER {
                bail!("{name} is {len} bytes, aligned to {}", section.align);
            }
            for offset in (0..len).step_by(POINTER as usize) {
                let element = self.unit.address(start.after(offset));
                let element = element.with_context(|| format!("{name}: no address at {offset}"))?;
                if !elements.insert(element) {
                    bail!("{name} has an element twice");
                }
            }
        }
        Ok(elements)
    }

    /// Returns the positions and contents of the records of sites, by the addresses of the nops.
    fn sites(&self) -> anyhow::Result<Vec<(Place, Tracepoint)>> {
        let mut sites = Vec::new();
        for (section, start) in self.unit.pieces("set_sdt_tracepoint_set") {
            let len = section.bytes.len() as u64;
            if !len.is_multiple_of(TRACEPOINT) {
                bail!("the set of tracepoints is {len} bytes");
            }
            for offset in (0..len).step_by(TRACEPOINT as usize) {
                let place = start.after(offset);
                let probe = self.pointer(place, "sdt_tracepoint", "probe")?;
                sites.push((
                    place,
                    Tracepoint {
                        probe: self.probe(probe)?,
                        patchpoint: self.pointer(place, "sdt_tracepoint", "patchpoint")?,
                        target: self.pointer(place, "sdt_tracepoint", "target")?,
                    },
                ));
            }
        }
        sites.sort_by_key(|(_, site)| site.patchpoint);
        Ok(sites)
    }

    fn provider(&self, place: Place) -> anyhow::Result<Name> {
        Ok(Name::Provider(self.string(place, "sdt_provider", "name")?))
    }

    fn probe(&self, place: Place) -> anyhow::Result<Name> {
        let provider = self.pointer(place, "sdt_probe", "prov")?;
        let string = |field| self.string(place, "sdt_probe", field);
        let provider = self.string(provider, "sdt_provider", "name")?;
        Ok(Name::Probe([provider, string("mod")?, string("func")?, string("name")?]))
    }

    fn argument(&self, place: Place) -> anyhow::Result<Name> {
        let probe = self.pointer(place, "sdt_argtype", "probe")?;
        let Name::Probe(probe) = self.probe(probe)? else { bail!("an argument of no probe") };
        let offset = self.offset("sdt_argtype", "ndx")?;
        let index = self.unit.bytes(place.after(offset), 4).context("an argument's index")?;
        Ok(Name::Argument(probe, u32::from_le_bytes(index.try_into()?)))
    }

    fn offset(&self, structure: &str, field: &str) -> anyhow::Result<u64> {
        let fields = &self.layout(structure)?.fields;
        let field = fields.get(field).with_context(|| format!("no {structure}.{field}"))?;
        Ok(field.offset)
    }

    fn layout(&self, structure: &str) -> anyhow::Result<&Layout> {
        self.layouts.get(structure).with_context(|| format!("no struct {structure}"))
    }

    fn pointer(&self, place: Place, structure: &str, field: &str) -> anyhow::Result<Place> {
        let at = place.after(self.offset(structure, field)?);
        self.unit.address(at).with_context(|| format!("{structure}.{field} is no address"))
    }

    fn string(&self, place: Place, structure: &str, field: &str) -> anyhow::Result<String> {
        let string = self.unit.string(self.pointer(place, structure, field)?);
        string.with_context(|| format!("{structure}.{field} is no string"))
    }

    fn function(&self, place: Place) -> anyhow::Result<String> {
        let function = self.unit.function_at(place).context("a site outside of functions")?;
        Ok(function.name.clone())
    }

    fn record(&self, place: Place, structure: &str) -> anyhow::Result<Record> {
        let len = self.layout(structure)?.size;
        let bytes = self.unit.bytes(place, len).with_context(|| format!("a short {structure}"))?;
        let mut bytes = bytes.to_vec();
        let mut pointers = BTreeMap::new();
        for (offset, relocation) in self.unit.relocations(place, len) {
            let target = self.unit.address(place.after(offset));
            let target =
                target.with_context(|| format!("{structure}: the address of another object"))?;
            let pointee = self.pointee(structure, offset, target)?;
            pointers.insert(offset, (relocation.kind, pointee));
            bytes[offset as usize..(offset + POINTER) as usize].fill(0);
        }
        Ok(Record { bytes, pointers, writable: self.unit.section_of(place).writable })
    }

    /// Returns the target of the pointer at an offset of a structure.
    fn pointee(&self, structure: &str, offset: u64, target: Place) -> anyhow::Result<Pointee> {
        let fields = &self.layout(structure)?.fields;
        let field = fields.iter().find(|(_, field)| field.offset == offset);
        let (name, _) = field.with_context(|| format!("{structure}: a pointer at {offset}"))?;
        Ok(match name.as_str() {
            "prov" => Pointee::Record(self.provider(target)?),
            "probe" => Pointee::Record(self.probe(target)?),
            "patchpoint" | "target" => Pointee::Code(self.function(target)?),
            _ => {
                let string = self.unit.string(target);
                Pointee::String(string.with_context(|| format!("{structure}.{name}: no string"))?)
            }
        })
    }
}
