//! A linked module: its image, and the kernel linker's tables of its content.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use stand_in_base::image::Image;

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
    /// Its range in the image.
    pub(super) range: Range<usize>,
}

/// A module in the form in which it is mapped, with its symbols. All ranges in it are inside the image.
#[derive(Clone, Debug)]
pub struct Linked {
    pub(super) image: Image,
    pub(super) symbols: Vec<Symbol>,
    pub(super) functions: Vec<Function>,
    /// Starts of functions, including functions in assembly that have only a name; empty if symbols have been stripped.
    pub(super) starts: BTreeSet<u64>,
    pub(super) sets: Vec<Set>,
    /// Arrays of functions to be called when the module is in place.
    pub(super) constructors: Vec<Range<usize>>,
    /// Arrays of functions to be called before it goes.
    pub(super) destructors: Vec<Range<usize>>,
}

/// A linked file can be used as an image.
impl Deref for Linked {
    type Target = Image;

    fn deref(&self) -> &Image {
        &self.image
    }
}

impl Linked {
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
            Some(set) => (self.base() + set.range.start as u64, &self.bytes()[set.range.clone()]),
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
            // The same steps as in link_elf_invoke_cbs().
            .filter(|&function| function != 0 && function != u64::MAX)
    }

    fn pointers(&self, range: Range<usize>) -> impl Iterator<Item = u64> {
        self.bytes()[range].as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes))
    }

    /// Returns whether a function of the module starts at an address, as far as its symbols tell.
    pub fn starts_function(&self, address: u64) -> bool {
        self.is_code(address) && (self.starts.is_empty() || self.starts.contains(&address))
    }
}
