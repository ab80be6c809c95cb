//! Inlined functions and lines, from DWARF.
//!
//! gimli decodes the data. The search is this module's own: it does not recurse, however deeply the file nests
//! functions, and it charges the memory that it keeps. Ambiguous references (two units with one address, an origin of
//! an origin) are followed a limited number of times.

#[cfg(feature = "functions")]
mod layout;
mod lines;
#[cfg(feature = "functions")]
mod signature;
#[cfg(feature = "functions")]
mod types;

pub use lines::Line;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebugLineOffset, DwarfFileType, EntriesRaw, Reader as _,
    Section as _, SectionId, UnitHeader, UnitOffset,
};

use super::image::{LOCATIONS, SECTIONS};
use super::meter::Meter;
use super::part::{Metered, Part};

/// The maximum number of functions that are shown for one address.
const DEEPEST: usize = 64;
/// The maximum number of functions around an address that are examined; the innermost ones are shown.
const NESTED: usize = 1024;
/// The maximum number of ranges that a search examines for an address, from the last one that begins at or before it.
const OVERLAPPING: usize = 64;
/// The maximum length of the chain of entries from an inlined function to the entry with its name.
const ORIGINS: usize = 16;
/// The maximum number of namespaces in the path of a type; the outer ones are left out.
#[cfg(feature = "functions")]
const NAMESPACES: usize = 64;
/// The memory of units that are kept, in bytes.
const CACHE: u64 = 64 << 20;
/// The charge for each read of an abbreviation. An entry of gimli's table has five reads at least, and takes up to 300 bytes.
const ABBREVIATION: u64 = 64;
/// The most reads of one unit's abbreviations.
const ABBREVIATIONS: u64 = 1 << 20;
/// The charge for a unit.
const UNIT: u64 = 1024;

type Result<T> = gimli::Result<T>;

/// The debug information of a file.
#[derive(Debug)]
pub(super) struct Debug {
    dwarf: gimli::Dwarf<Part>,
    meter: Rc<Meter>,
    /// The units with code, by offset.
    code: Ranges,
    /// The offsets of all units, in ascending order.
    starts: Vec<usize>,
    units: RefCell<Cache>,
    /// The structs of arguments.
    #[cfg(feature = "functions")]
    records: RefCell<Records>,
    /// The names of these structs, shared with other files.
    #[cfg(feature = "functions")]
    names: Rc<crate::signature::StructNames>,
}

#[derive(Debug, Default)]
struct Cache {
    units: HashMap<usize, Rc<Unit>>,
    charged: u64,
}

/// A unit and its functions.
#[derive(Debug)]
struct Unit {
    unit: gimli::Unit<Part>,
    start: usize,
    lines: Option<DebugLineOffset>,
    contents: OnceCell<Contents>,
}

/// The functions of a unit, those within functions included, and its namespaces.
#[derive(Debug)]
struct Contents {
    functions: Ranges,
    /// In the order of their entries.
    #[cfg(feature = "functions")]
    namespaces: Vec<Namespace>,
}

/// A namespace, such as a module in Rust.
#[cfg(feature = "functions")]
#[derive(Debug)]
struct Namespace {
    /// The offset of its entry.
    begin: usize,
    /// The offset of the first entry behind it.
    end: usize,
    /// The index of the namespace that contains it.
    parent: Option<usize>,
}

/// Ranges of addresses that may overlap, each with an offset.
#[derive(Debug, Default)]
struct Ranges(Vec<Range>);

#[derive(Clone, Copy, Debug)]
struct Range {
    begin: u64,
    end: u64,
    /// The largest end of this range and all before.
    furthest: u64,
    offset: usize,
}

impl Ranges {
    fn new(mut all: Vec<Range>) -> Self {
        all.sort_unstable_by_key(|range| (range.begin, std::cmp::Reverse(range.end)));
        let mut furthest = 0;
        for range in &mut all {
            furthest = range.end.max(furthest);
            range.furthest = furthest;
        }
        Self(all)
    }

    /// Returns the offsets of the ranges with an address, the innermost first.
    fn find(&self, address: u64) -> impl Iterator<Item = usize> {
        let before = self.0.partition_point(|range| range.begin <= address);
        let reaching = self.0[..before].iter().rev().take(OVERLAPPING);
        let reaching = reaching.take_while(move |range| range.furthest > address);
        reaching.filter(move |range| range.end > address).map(|range| range.offset)
    }
}

/// The attributes of an entry that matter here.
#[derive(Default)]
struct Attributes {
    low: Option<AttributeValue<Part>>,
    high: Option<AttributeValue<Part>>,
    ranges: Option<AttributeValue<Part>>,
    linkage_name: Option<AttributeValue<Part>>,
    name: Option<AttributeValue<Part>>,
    origin: Option<AttributeValue<Part>>,
    folder: Option<AttributeValue<Part>>,
    call_file: Option<u64>,
    call_line: Option<u64>,
    lines: Option<DebugLineOffset>,
    strings: Option<gimli::DebugStrOffsetsBase>,
    addresses: Option<gimli::DebugAddrBase>,
    lists: Option<gimli::DebugRngListsBase>,
    locations: Option<gimli::DebugLocListsBase>,
}

/// The structs that have names in D.
#[cfg(feature = "functions")]
#[derive(Debug, Default)]
struct Records {
    /// By their places: units and entries. `None` for those that D cannot represent.
    names: HashMap<(usize, usize), Option<String>>,
    /// The place of the first struct with a name.
    places: HashMap<String, (usize, usize)>,
}

/// The namespaces of a unit, while its entries are read.
#[cfg(feature = "functions")]
#[derive(Default)]
struct Namespaces {
    all: Vec<Namespace>,
    /// The namespaces around the current entry: their depths and indexes.
    open: Vec<(isize, usize)>,
}

#[cfg(feature = "functions")]
impl Namespaces {
    /// Closes the namespaces that end before an entry.
    fn reach(&mut self, at: usize, depth: isize) {
        while let Some((_, index)) = self.open.pop_if(|(of, _)| depth <= *of) {
            self.all[index].end = at;
        }
    }

    /// Opens the namespace with this entry.
    fn open(&mut self, at: usize, depth: isize) {
        let parent = self.open.last().map(|(_, index)| *index);
        self.open.push((depth, self.all.len()));
        self.all.push(Namespace { begin: at, end: usize::MAX, parent });
    }
}

/// A function around an address: its entry, and the place of its call.
struct Frame {
    depth: isize,
    entry: UnitOffset,
    call: Option<(u64, u64)>,
}

impl Debug {
    /// Reads the ranges of all units; `None` without debug information, or if it could not be decompressed.
    pub fn new(file: &Rc<Metered>) -> Option<Self> {
        let load = |id: SectionId| {
            let section = file.image.debug_section(id.name());
            let range = match SECTIONS.contains(&id) {
                true => section.ok_or(gimli::Error::Io)?,
                // Without locations, only variables are unknown.
                false => section.filter(|_| LOCATIONS.contains(&id)).unwrap_or(0..0),
            };
            Ok::<_, gimli::Error>(Part::new(file, range))
        };
        let dwarf = gimli::Dwarf::load(load).ok()?;
        if dwarf.debug_info.reader().is_empty() {
            return None;
        }
        let meter = file.meter.clone();
        let mut debug = Self {
            dwarf,
            meter,
            code: Ranges::default(),
            starts: Vec::new(),
            units: RefCell::default(),
            #[cfg(feature = "functions")]
            records: RefCell::default(),
            #[cfg(feature = "functions")]
            names: Rc::default(),
        };
        let mut code = Vec::new();
        let mut headers = debug.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(start) = header.debug_info_offset() else { continue };
            if !debug.meter.keep(2 * size_of::<usize>() as u64) {
                break;
            }
            debug.starts.push(start.0);
            // A damaged unit has no names.
            if let Ok((unit, root, _)) = debug.unit(header) {
                let _ = debug.add_ranges(&unit.unit, &root, start.0, &mut code);
            }
        }
        debug.code = Ranges::new(code);
        Some(debug)
    }

    /// Reads the abbreviations and the first entry of a unit. Returns the charge of the abbreviations, too.
    fn unit(&self, header: UnitHeader<Part>) -> Result<(Unit, Attributes, u64)> {
        let most = ABBREVIATIONS.min(self.meter.left() / ABBREVIATION);
        let (abbreviations, steps) = self.meter.within(most, || self.dwarf.abbreviations(&header));
        let encoding = header.encoding();
        let main = DwarfFileType::Main;
        let start = header.debug_info_offset().map_or(0, |start| start.0);
        let mut unit = gimli::Unit {
            abbreviations: abbreviations?,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
                encoding, main,
            ),
            addr_base: gimli::DebugAddrBase(0),
            loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, main),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, main),
            line_program: None,
            dwo_id: None,
            header,
        };
        let mut entries = unit.entries_raw(None)?;
        let abbreviation = entries.read_abbreviation()?.ok_or(gimli::Error::MissingUnitDie)?;
        let root = self.attributes(&mut entries, abbreviation)?;
        unit.str_offsets_base = root.strings.unwrap_or(unit.str_offsets_base);
        unit.addr_base = root.addresses.unwrap_or(unit.addr_base);
        unit.rnglists_base = root.lists.unwrap_or(unit.rnglists_base);
        unit.loclists_base = root.locations.unwrap_or(unit.loclists_base);
        if let Some(folder) = root.folder.clone() {
            unit.comp_dir = self.dwarf.attr_string(&unit, folder).ok();
        }
        if let Some(low) = root.low.clone() {
            unit.low_pc = self.dwarf.attr_address(&unit, low)?.unwrap_or(0);
        }
        let unit = Unit { unit, start, lines: root.lines, contents: OnceCell::new() };
        Ok((unit, root, steps * ABBREVIATION))
    }

    /// Reads the attributes of an entry. Attributes without bytes are counted, too.
    fn attributes(
        &self,
        entries: &mut EntriesRaw<'_, Part>,
        abbreviation: &gimli::Abbreviation,
    ) -> Result<Attributes> {
        self.count(abbreviation)?;
        let mut found = Attributes::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            let value = attribute.value();
            match (attribute.name(), value) {
                (gimli::DW_AT_low_pc, value) => found.low = Some(value),
                (gimli::DW_AT_high_pc, value) => found.high = Some(value),
                (gimli::DW_AT_ranges, value) => found.ranges = Some(value),
                (gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name, value) => {
                    found.linkage_name = Some(value);
                }
                (gimli::DW_AT_name, value) => found.name = Some(value),
                (gimli::DW_AT_abstract_origin | gimli::DW_AT_specification, value) => {
                    found.origin = Some(value);
                }
                (gimli::DW_AT_comp_dir, value) => found.folder = Some(value),
                (gimli::DW_AT_call_file, AttributeValue::FileIndex(file)) => {
                    found.call_file = Some(file);
                }
                (gimli::DW_AT_call_line, _) => found.call_line = attribute.udata_value(),
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) => {
                    found.lines = Some(at);
                }
                (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    found.strings = Some(base);
                }
                (gimli::DW_AT_addr_base, AttributeValue::DebugAddrBase(base)) => {
                    found.addresses = Some(base);
                }
                (gimli::DW_AT_rnglists_base, AttributeValue::DebugRngListsBase(base)) => {
                    found.lists = Some(base);
                }
                (gimli::DW_AT_loclists_base, AttributeValue::DebugLocListsBase(base)) => {
                    found.locations = Some(base);
                }
                _ => {}
            }
        }
        Ok(found)
    }

    fn skip(
        &self,
        entries: &mut EntriesRaw<'_, Part>,
        abbreviation: &gimli::Abbreviation,
    ) -> Result<()> {
        self.count(abbreviation)?;
        entries.skip_attributes(abbreviation.attributes())
    }

    fn count(&self, abbreviation: &gimli::Abbreviation) -> Result<()> {
        match self.meter.step(abbreviation.attributes().len() as u64) {
            true => Ok(()),
            false => Err(gimli::Error::Io),
        }
    }

    /// Calls a function with each range of an entry, until it returns false.
    fn each_range(
        &self,
        unit: &gimli::Unit<Part>,
        of: &Attributes,
        mut f: impl FnMut(u64, u64) -> bool,
    ) -> Result<()> {
        if let Some(ranges) = of.ranges.clone()
            && let Some(mut ranges) = self.dwarf.attr_ranges(unit, ranges)?
        {
            while let Some(range) = ranges.next()? {
                if range.begin < range.end && !f(range.begin, range.end) {
                    break;
                }
            }
            return Ok(());
        }
        let (Some(low), Some(high)) = (of.low.clone(), of.high.clone()) else { return Ok(()) };
        let Some(begin) = self.dwarf.attr_address(unit, low)? else { return Ok(()) };
        let end = match high {
            AttributeValue::Udata(size) => begin.checked_add(size),
            address => self.dwarf.attr_address(unit, address)?,
        };
        if let Some(end) = end.filter(|end| begin < *end) {
            f(begin, end);
        }
        Ok(())
    }

    fn add_ranges(
        &self,
        unit: &gimli::Unit<Part>,
        of: &Attributes,
        offset: usize,
        to: &mut Vec<Range>,
    ) -> Result<()> {
        self.each_range(unit, of, |begin, end| {
            // A list may double its size when it grows.
            let kept = self.meter.keep(2 * size_of::<Range>() as u64);
            if kept {
                to.push(Range { begin, end, furthest: end, offset });
            }
            kept
        })
    }

    /// Returns the unit at an offset.
    fn unit_at(&self, start: usize) -> Result<Rc<Unit>> {
        if let Some(unit) = self.units.borrow().units.get(&start) {
            return Ok(unit.clone());
        }
        let header = self.dwarf.debug_info.header_from_offset(DebugInfoOffset(start))?;
        let (unit, _, charge) = self.unit(header)?;
        let unit = Rc::new(unit);
        self.charge(charge + UNIT);
        self.units.borrow_mut().units.insert(start, unit.clone());
        Ok(unit)
    }

    /// Charges memory of the cache, and empties the cache if it is full.
    fn charge(&self, bytes: u64) {
        let mut cache = self.units.borrow_mut();
        if cache.charged + bytes > CACHE {
            self.meter.release(std::mem::take(&mut *cache).charged);
        }
        if self.meter.keep(bytes) {
            cache.charged += bytes;
        }
    }

    /// Returns the functions of a unit, those within functions included.
    fn functions<'a>(&self, unit: &'a Unit) -> Result<&'a Ranges> {
        Ok(&self.contents(unit)?.functions)
    }

    fn contents<'a>(&self, unit: &'a Unit) -> Result<&'a Contents> {
        if let Some(contents) = unit.contents.get() {
            return Ok(contents);
        }
        let mut all = Vec::new();
        #[cfg(feature = "functions")]
        let mut namespaces = Namespaces::default();
        let mut entries = unit.unit.entries_raw(None)?;
        while !entries.is_empty() {
            let at = entries.next_offset();
            #[cfg(feature = "functions")]
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let tag = abbreviation.tag();
            #[cfg(feature = "functions")]
            {
                namespaces.reach(at.0, depth);
                if tag == gimli::DW_TAG_namespace {
                    if !self.meter.keep(2 * size_of::<Namespace>() as u64) {
                        return Err(gimli::Error::Io);
                    }
                    namespaces.open(at.0, depth);
                }
            }
            if tag != gimli::DW_TAG_subprogram {
                self.skip(&mut entries, abbreviation)?;
                continue;
            }
            let attributes = self.attributes(&mut entries, abbreviation)?;
            self.add_ranges(&unit.unit, &attributes, at.0, &mut all)?;
        }
        // From now on, the cache accounts for this charge.
        let charge = 2 * size_of::<Range>() * all.len();
        #[cfg(feature = "functions")]
        let charge = charge + 2 * size_of::<Namespace>() * namespaces.all.len();
        self.meter.release(charge as u64);
        self.charge(charge as u64);
        let contents = Contents {
            functions: Ranges::new(all),
            #[cfg(feature = "functions")]
            namespaces: namespaces.all,
        };
        Ok(unit.contents.get_or_init(|| contents))
    }

    /// Returns the entries of the namespaces around an entry, the innermost first.
    #[cfg(feature = "functions")]
    fn namespaces(&self, unit: &Unit, at: UnitOffset) -> Result<Vec<UnitOffset>> {
        let all = &self.contents(unit)?.namespaces;
        let mut next = all.partition_point(|of| of.begin <= at.0).checked_sub(1);
        let mut around = Vec::new();
        while let Some(of) = next.map(|index| &all[index])
            && around.len() < NAMESPACES
        {
            if at.0 < of.end {
                around.push(UnitOffset(of.begin));
            }
            next = of.parent;
        }
        Ok(around)
    }

    /// Returns the functions around an address, the outermost first: the function, then the inlined functions, each of which is
    /// inlined into the previous one.
    fn frames(&self, address: u64) -> Result<Option<(Rc<Unit>, Vec<Frame>)>> {
        let mut last = None;
        for start in self.code.find(address) {
            // A damaged unit has no names.
            let Ok(unit) = self.unit_at(start) else { continue };
            let function = self.functions(&unit)?.find(address).next();
            if let Some(function) = function {
                let frames = self.frames_of(&unit.unit, UnitOffset(function), address)?;
                return Ok(Some((unit, frames)));
            }
            last = Some(unit);
        }
        Ok(last.map(|unit| (unit, Vec::new())))
    }

    fn frames_of(
        &self,
        unit: &gimli::Unit<Part>,
        function: UnitOffset,
        address: u64,
    ) -> Result<Vec<Frame>> {
        let mut frames = vec![Frame { depth: 0, entry: function, call: None }];
        let mut entries = unit.entries_raw(Some(function))?;
        let abbreviation = entries.read_abbreviation()?;
        let abbreviation = abbreviation.ok_or(gimli::Error::MissingUnitDie)?;
        self.skip(&mut entries, abbreviation)?;
        // The depth of a function within this one, whose entries belong to other code.
        let mut other = None;
        loop {
            let (at, depth) = (entries.next_offset(), entries.next_depth());
            let innermost = frames.last().map_or(0, |frame| frame.depth);
            // No entry after the innermost function can contain the address.
            if depth <= innermost || entries.is_empty() {
                break;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            other = other.filter(|other| depth > *other);
            match abbreviation.tag() {
                gimli::DW_TAG_inlined_subroutine if other.is_none() => {
                    let of = self.attributes(&mut entries, abbreviation)?;
                    let mut contains = false;
                    self.each_range(unit, &of, |begin, end| {
                        contains |= (begin..end).contains(&address);
                        !contains
                    })?;
                    if contains {
                        let call = of.call_file.zip(of.call_line);
                        frames.push(Frame { depth, entry: at, call });
                    }
                }
                tag => {
                    self.skip(&mut entries, abbreviation)?;
                    if tag == gimli::DW_TAG_subprogram && other.is_none() {
                        other = Some(depth);
                    }
                }
            }
            if frames.len() > NESTED {
                return Err(gimli::Error::Io);
            }
        }
        Ok(frames)
    }

    /// Returns the name of a function.
    fn name(&self, unit: &Rc<Unit>, entry: UnitOffset) -> Result<Option<String>> {
        let (mut unit, mut entry) = (unit.clone(), entry);
        for _ in 0..ORIGINS {
            let mut entries = unit.unit.entries_raw(Some(entry))?;
            let Some(abbreviation) = entries.read_abbreviation()? else { break };
            let of = self.attributes(&mut entries, abbreviation)?;
            if let Some(name) = of.linkage_name.or(of.name) {
                return self.text(&unit.unit, name).map(Some);
            }
            match of.origin.map(|origin| self.refer(&unit, &origin)).transpose()?.flatten() {
                Some(origin) => (unit, entry) = origin,
                None => break,
            }
        }
        Ok(None)
    }

    /// Returns the entry to which an attribute of an entry refers, and its unit.
    fn refer(
        &self,
        unit: &Rc<Unit>,
        to: &AttributeValue<Part>,
    ) -> Result<Option<(Rc<Unit>, UnitOffset)>> {
        match *to {
            AttributeValue::UnitRef(at) => Ok(Some((unit.clone(), at))),
            AttributeValue::DebugInfoRef(at) => {
                let before = self.starts.partition_point(|start| *start <= at.0);
                let Some(start) = before.checked_sub(1) else { return Ok(None) };
                let unit = self.unit_at(self.starts[start])?;
                let entry = UnitOffset(at.0 - unit.start);
                Ok(Some((unit, entry)))
            }
            _ => Ok(None),
        }
    }

    fn text(&self, unit: &gimli::Unit<Part>, value: AttributeValue<Part>) -> Result<String> {
        let text = self.dwarf.attr_string(unit, value)?;
        if text.len() > super::part::LONGEST {
            return Err(gimli::Error::Io);
        }
        Ok(crate::escape::name(&text.to_slice()?))
    }
}
