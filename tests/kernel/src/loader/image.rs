//! A module in the form in which it is mapped.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;

/// Bytes in a page: what a protection applies to.
pub const PAGE: usize = 4096;

/// Most memory that one module may take.
pub(super) const MAX_SIZE: usize = 64 << 20;

/// What may be done with a stretch of memory. None may be both written and executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Code.
    Execute,
    /// Constants.
    Read,
    /// Data.
    Write,
}

/// Pages with one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where they start, from the image's start; a multiple of [`PAGE`].
    pub offset: usize,
    /// Bytes; a multiple of [`PAGE`].
    pub size: usize,
    /// What may be done with them.
    pub protection: Protection,
}

/// A global symbol that the module defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: u64,
}

/// A function of the module, by what debuggers know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol's name.
    pub name: String,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A firing site of a probe, as `sdt-core` leaves a record of it. Nothing in it has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteRecord {
    /// Address of the probe's record.
    pub probe: u64,
    /// Address of the site.
    pub patchpoint: u64,
    /// Address of its cold block.
    pub target: u64,
}

/// The set of [`SiteRecord`]s. FreeBSD's kernel does not know it; it is looked at for listings only.
pub(super) const SITES: &str = "sdt_sites";

/// A linker set.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// Its name, without `set_`; or [`SITES`].
    pub(super) name: String,
    /// Where it is in the image.
    pub(super) range: Range<usize>,
}

/// Whether all of these bytes are memory with this protection, of what is at `base`.
pub(crate) fn holds(
    base: u64,
    segments: &[Segment],
    address: u64,
    size: usize,
    protection: Protection,
) -> bool {
    let at = address.checked_sub(base).and_then(|at| usize::try_from(at).ok());
    at.is_some_and(|at| {
        segments.iter().any(|segment| {
            let left = segment.size.checked_sub(at.wrapping_sub(segment.offset));
            segment.protection == protection
                && at >= segment.offset
                && left.is_some_and(|left| left >= size)
        })
    })
}

/// A module in the form in which it is mapped. All ranges in it are inside `bytes`.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) base: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) functions: Vec<Function>,
    /// Where functions start, those of assembly among them that have a name only; none if symbols have been stripped.
    pub(super) starts: BTreeSet<u64>,
    pub(super) sets: Vec<Set>,
    /// Arrays of functions to be called when the module is in place.
    pub(super) constructors: Vec<Range<usize>>,
    /// Arrays of functions to be called before it goes.
    pub(super) destructors: Vec<Range<usize>>,
}

impl Image {
    /// Memory with its protections, and nothing that is known of what is in it.
    pub(crate) fn new(base: u64, bytes: Vec<u8>, segments: Vec<Segment>) -> Self {
        Self {
            base,
            bytes,
            segments,
            symbols: Vec::new(),
            functions: Vec::new(),
            starts: BTreeSet::new(),
            sets: Vec::new(),
            constructors: Vec::new(),
            destructors: Vec::new(),
        }
    }

    /// Bytes that the image takes, a multiple of [`PAGE`].
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Where the image is to be mapped.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Everything the image holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its protections, in order, without gaps.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The global symbols that the module defines.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The functions of the module that have a symbol.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The firing sites of the module.
    pub fn sites(&self) -> Vec<SiteRecord> {
        let words: Vec<u64> = self.set(SITES).collect();
        let records = words.as_chunks().0.iter();
        records
            .map(|&[probe, patchpoint, target, _]| SiteRecord { probe, patchpoint, target })
            .collect()
    }

    /// Everything in a linker set, and where it is; nothing at 0 if there is no such set.
    pub fn set_contents(&self, name: &str) -> (u64, &[u8]) {
        match self.sets.iter().find(|set| set.name == name) {
            Some(set) => (self.base + set.range.start as u64, &self.bytes[set.range.clone()]),
            None => (0, &[]),
        }
    }

    /// The pointers in a linker set. An unfinished pointer at its end is not one.
    pub fn set(&self, name: &str) -> impl Iterator<Item = u64> {
        let set = self.sets.iter().find(|set| set.name == name);
        self.pointers(set.map_or(0..0, |set| set.range.clone()))
    }

    /// The functions to be called when the module is in place.
    pub fn constructors(&self) -> impl Iterator<Item = u64> {
        self.array(&self.constructors)
    }

    /// The functions to be called before the module goes.
    pub fn destructors(&self) -> impl Iterator<Item = u64> {
        self.array(&self.destructors)
    }

    fn array(&self, arrays: &[Range<usize>]) -> impl Iterator<Item = u64> {
        arrays
            .iter()
            .flat_map(|array| self.pointers(array.clone()))
            // As link_elf_invoke_cbs does.
            .filter(|&function| function != 0 && function != u64::MAX)
    }

    fn pointers(&self, range: Range<usize>) -> impl Iterator<Item = u64> {
        self.bytes[range].as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes))
    }

    /// Memory of the module, by address.
    pub fn read<const N: usize>(&self, address: u64) -> Option<&[u8; N]> {
        self.from(address)?.first_chunk()
    }

    /// Text of the module that ends with a NUL, by address.
    pub fn text(&self, address: u64) -> Option<&str> {
        self.c_str(address)?.to_str().ok()
    }

    /// Bytes of the module that end with a NUL, by address.
    pub fn c_str(&self, address: u64) -> Option<&CStr> {
        CStr::from_bytes_until_nul(self.from(address)?).ok()
    }

    /// Whether all of these bytes are memory of the module with this protection.
    pub fn holds(&self, address: u64, size: usize, protection: Protection) -> bool {
        holds(self.base, &self.segments, address, size, protection)
    }

    /// Whether a function of the module starts at an address, as far as its symbols tell.
    pub fn starts_function(&self, address: u64) -> bool {
        self.is_code(address) && (self.starts.is_empty() || self.starts.contains(&address))
    }

    /// Whether an address is that of code of the module.
    pub fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let start = self.base + segment.offset as u64;
            segment.protection == Protection::Execute
                && (start..start + segment.size as u64).contains(&address)
        })
    }

    fn from(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.bytes.get(offset..)
    }
}
