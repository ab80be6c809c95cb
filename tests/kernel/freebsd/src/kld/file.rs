//! A loaded file and its modules.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::file_info::FileInfo;
use crate::linker::{Metadata, ModuleData};
use crate::loader::{Function, Linked, SiteRecord, Symbol};
use stand_in_base::image::{Protection, Segment, holds};

/// A file that is mapped (`struct linker_file`).
#[derive(Debug)]
pub(super) struct File {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) base: u64,
    pub(super) size: usize,
    pub(super) segments: Vec<Segment>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) functions: Vec<Function>,
    pub(super) sites: Vec<SiteRecord>,
    pub(super) metadata: Metadata,
    pub(super) constructors: Vec<u64>,
    pub(super) destructors: Vec<u64>,
    /// The numbers of the files that this file depends on.
    pub(super) dependencies: Vec<u32>,
    /// The number of files that depend on this file, plus 1 for kldload's reference (`refs`).
    pub(super) references: u32,
    /// Whether kldload's reference still exists (`userrefs`).
    pub(super) by_user: bool,
    /// The error number of the last module whose MOD_LOAD event failed.
    pub(super) load_error: i32,
}

impl File {
    pub(super) fn new(
        id: u32,
        name: &str,
        image: &Linked,
        metadata: Metadata,
        dependencies: Vec<u32>,
    ) -> Self {
        Self {
            id,
            name: name.to_string(),
            base: image.base(),
            size: image.size(),
            segments: image.segments().to_vec(),
            symbols: image.symbols().to_vec(),
            functions: image.functions().to_vec(),
            sites: image.sites(),
            metadata,
            constructors: image.constructors().collect(),
            destructors: image.destructors().collect(),
            dependencies,
            references: 1,
            by_user: true,
            load_error: 0,
        }
    }

    /// Returns whether the `size` bytes at `address` are in one segment of the file with this protection.
    pub(super) fn holds(&self, address: u64, size: usize, protection: Protection) -> bool {
        holds(self.base, &self.segments, address, size, protection)
    }

    /// Returns the name of the function at an address, and the offset of the address in the function.
    pub(super) fn function_at(&self, address: u64) -> Option<(String, u64)> {
        let function = self.function(address)?;
        Some((function.name.clone(), address - function.address))
    }

    fn function(&self, address: u64) -> Option<&Function> {
        let at = |function: &&Function| {
            address.checked_sub(function.address).is_some_and(|offset| offset < function.size)
        };
        self.functions.iter().find(at)
    }

    /// Returns the function at an address.
    pub(super) fn symbol_at(&self, address: u64) -> Option<FileSymbol> {
        let Function { name, address, size, .. } = self.function(address)?;
        let (file, name) = (self.name.clone(), name.clone());
        Some(FileSymbol { file, name, address: *address, size: *size })
    }

    pub(super) fn info(&self) -> FileInfo {
        FileInfo { id: self.id, name: self.name.clone(), base: self.base, size: self.size }
    }
}

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSymbol {
    /// The name of the file.
    pub file: String,
    /// The name of the function.
    pub name: String,
    /// The address of the function.
    pub address: u64,
    /// The size of the function in bytes.
    pub size: u64,
}

/// A module of a file (`struct module`).
#[derive(Debug)]
pub(super) struct Module {
    pub(super) file: u32,
    pub(super) data: ModuleData,
}

impl Module {
    /// Returns the module's `module_t`, an opaque pointer.
    pub(super) fn handle(&self) -> u64 {
        (&raw const *self) as u64
    }
}
