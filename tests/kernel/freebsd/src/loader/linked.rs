//! A linked module: its image, and the kernel linker's tables of its content.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use stand_in_base::image::Image;

/// A global symbol that the module defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name of the symbol.
    pub name: String,
    /// The address of the symbol.
    pub address: u64,
}

/// A function of the module, as the symbol table for debuggers describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name of the function's symbol.
    pub name: String,
    /// The address of the function.
    pub address: u64,
    /// The size of the function in bytes.
    pub size: u64,
}

/// The record that `sdt-core` creates for a firing site of a probe. Its addresses have not been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteRecord {
    /// Address of the probe's record.
    pub probe: u64,
    /// Address of the site.
    pub patchpoint: u64,
    /// Address of its cold block.
    pub target: u64,
}

/// The section of the [`SiteRecord`]s. FreeBSD ignores it; the stand-in kernel uses it only to list sites.
pub(super) const SITES: &str = "sdt_sites";

/// A linker set.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// The name of the set without `set_`; or [`SITES`].
    pub(super) name: String,
    /// The range of the set in the image.
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
    /// Arrays of the functions to call after the module has been mapped.
    pub(super) constructors: Vec<Range<usize>>,
    /// Arrays of the functions to call before the module is unmapped.
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

    /// Returns the address and the contents of a linker set; 0 and an empty slice if the set does not exist.
    pub fn set_contents(&self, name: &str) -> (u64, &[u8]) {
        match self.sets.iter().find(|set| set.name == name) {
            Some(set) => (self.base() + set.range.start as u64, &self.bytes()[set.range.clone()]),
            None => (0, &[]),
        }
    }

    /// Returns the pointers in a linker set. Ignores an incomplete pointer at the end of the set.
    pub fn set(&self, name: &str) -> impl Iterator<Item = u64> {
        let set = self.sets.iter().find(|set| set.name == name);
        self.pointers(set.map_or(0..0, |set| set.range.clone()))
    }

    /// Returns the functions to call after the module has been mapped.
    pub fn constructors(&self) -> impl Iterator<Item = u64> {
        self.array(&self.constructors)
    }

    /// Returns the functions to call before the module is unmapped.
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

    /// Returns whether a function of the module starts at an address. Without symbols, every address in code counts as a start.
    pub fn starts_function(&self, address: u64) -> bool {
        self.is_code(address) && (self.starts.is_empty() || self.starts.contains(&address))
    }
}
