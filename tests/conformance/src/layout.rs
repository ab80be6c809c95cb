//! Layouts of structures, read from the debugging information of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::Context as _;
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, EntriesTreeNode, LittleEndian,
    RelocateReader, UnitOffset,
};
use object::read::RelocationMap;
use object::{Object as _, ObjectSection as _};

/// The layout of one structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its size in bytes.
    pub size: u64,
    /// Its alignment, if the debugging information contains it, as for Rust.
    pub align: Option<u64>,
    /// Its fields.
    pub fields: BTreeMap<String, Field>,
}

/// The position of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The layouts of all structures of an object, by name: `sdt_probe`, `sdt_core::freebsd::native::record::Probe`.
///
/// # Errors
/// It has no debugging information, or that is damaged.
pub fn layouts(object: &[u8]) -> anyhow::Result<BTreeMap<String, Layout>> {
    let file = object::File::parse(object)?;
    let mut sections = BTreeMap::new();
    for section in file.sections() {
        let name = section.name()?;
        if !name.starts_with(".debug_") {
            continue;
        }
        let mut relocations = Relocations::default();
        for (offset, relocation) in section.relocations() {
            // It cannot apply relocations of line tables, which are not used here.
            let _ = relocations.0.add(&file, offset, relocation);
        }
        sections.insert(name.to_owned(), (section.uncompressed_data()?, relocations));
    }
    let nothing = (Cow::Borrowed(&[][..]), Relocations::default());
    let dwarf: Dwarf<Reader<'_>> = Dwarf::load(|id| {
        let (data, relocations) = sections.get(id.name()).unwrap_or(&nothing);
        Ok::<_, gimli::Error>(RelocateReader::new(
            EndianSlice::new(data, LittleEndian),
            relocations,
        ))
    })?;
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        units.push(dwarf.unit(header)?);
    }
    let units = Units { dwarf: &dwarf, units };
    let mut found = BTreeMap::new();
    for unit in &units.units {
        let mut tree = unit.entries_tree(None)?;
        units.walk(unit, tree.root()?, "", &mut found)?;
    }
    Ok(found)
}

type Reader<'a> = RelocateReader<EndianSlice<'a, LittleEndian>, &'a Relocations>;
type Unit<'a> = gimli::Unit<Reader<'a>>;
type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;

#[derive(Debug, Default)]
struct Relocations(RelocationMap);

impl gimli::read::Relocate for &Relocations {
    fn relocate_address(&self, offset: usize, value: u64) -> gimli::Result<u64> {
        Ok(self.0.relocate(offset as u64, value))
    }

    fn relocate_offset(&self, offset: usize, value: usize) -> gimli::Result<usize> {
        Ok(self.0.relocate(offset as u64, value as u64) as usize)
    }
}

struct Units<'a> {
    dwarf: &'a Dwarf<Reader<'a>>,
    units: Vec<Unit<'a>>,
}

impl<'a> Units<'a> {
    /// Adds the structures in an entry, which is in the namespace `path`.
    fn walk(
        &self,
        unit: &Unit<'a>,
        node: EntriesTreeNode<'_, '_, Reader<'a>>,
        path: &str,
        found: &mut BTreeMap<String, Layout>,
    ) -> anyhow::Result<()> {
        let entry = node.entry();
        let name = self.name(unit, entry)?;
        let inside = match (entry.tag(), &name) {
            (gimli::DW_TAG_namespace | gimli::DW_TAG_structure_type, Some(name)) => {
                if path.is_empty() { name.clone() } else { format!("{path}::{name}") }
            }
            _ => path.to_owned(),
        };
        let is_structure = entry.tag() == gimli::DW_TAG_structure_type && name.is_some();
        let size = number(entry, gimli::DW_AT_byte_size);
        let align = number(entry, gimli::DW_AT_alignment);
        let mut fields = BTreeMap::new();
        let mut children = node.children();
        while let Some(child) = children.next()? {
            let member = child.entry();
            if is_structure && member.tag() == gimli::DW_TAG_member {
                let name = self.name(unit, member)?.unwrap_or_default();
                let offset = number(member, gimli::DW_AT_data_member_location);
                if let (Some(offset), Some((unit, of))) = (offset, self.reference(unit, member)?) {
                    let size = self.size(unit, of).with_context(|| format!("{inside}.{name}"))?;
                    fields.insert(name, Field { offset, size });
                }
            } else {
                self.walk(unit, child, &inside, found)?;
            }
        }
        // Without a size it is a declaration.
        if let (true, Some(size)) = (is_structure, size) {
            found.insert(inside, Layout { size, align, fields });
        }
        Ok(())
    }

    fn name(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> anyhow::Result<Option<String>> {
        let Some(value) = entry.attr_value(gimli::DW_AT_name) else { return Ok(None) };
        let name = self.dwarf.attr_string(unit, value)?;
        Ok(Some(gimli::Reader::to_string_lossy(&name)?.into_owned()))
    }

    /// Returns the offset of the type to which an entry of a unit refers.
    fn reference<'u>(
        &'u self,
        unit: &'u Unit<'a>,
        entry: &Entry<'a>,
    ) -> anyhow::Result<Option<(&'u Unit<'a>, UnitOffset)>> {
        match entry.attr_value(gimli::DW_AT_type) {
            Some(AttributeValue::UnitRef(offset)) => Ok(Some((unit, offset))),
            Some(AttributeValue::DebugInfoRef(offset)) => {
                let of = |unit: &'u Unit<'a>| Some((unit, offset.to_unit_offset(&unit.header)?));
                let found = self.units.iter().find_map(of);
                Ok(Some(found.context("a type outside of all units")?))
            }
            _ => Ok(None),
        }
    }

    /// The size of the type at an offset of a unit.
    fn size(&self, unit: &Unit<'a>, at: UnitOffset) -> anyhow::Result<u64> {
        let entry = unit.entry(at)?;
        if let Some(size) = number(&entry, gimli::DW_AT_byte_size) {
            return Ok(size);
        }
        match (entry.tag(), self.reference(unit, &entry)?) {
            (gimli::DW_TAG_pointer_type, _) => Ok(unit.header.address_size().into()),
            (gimli::DW_TAG_array_type, Some((of, element))) => {
                Ok(self.size(of, element)? * count(unit, at)?)
            }
            (_, Some((of, other))) => self.size(of, other),
            (tag, None) => anyhow::bail!("a type without a size, {tag}"),
        }
    }
}

/// Returns the number of elements of the array at an offset of a unit, in all dimensions.
fn count(unit: &Unit<'_>, array: UnitOffset) -> anyhow::Result<u64> {
    let mut count = 1;
    let mut tree = unit.entries_tree(Some(array))?;
    let mut dimensions = tree.root()?.children();
    while let Some(dimension) = dimensions.next()? {
        let dimension = dimension.entry();
        let upper = number(dimension, gimli::DW_AT_upper_bound).map(|last| last + 1);
        // An array of unknown length takes no room.
        count *= number(dimension, gimli::DW_AT_count).or(upper).unwrap_or(0);
    }
    Ok(count)
}

fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}
