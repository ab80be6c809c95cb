//! Reads the records in the linker sets of a module: `struct mod_metadata`, `moduledata_t`, `struct mod_depend`,
//! `struct mod_version` (`sys/module.h`) and `struct sysinit` (`sys/kernel.h`).
//!
//! The functions copy the records out of a relocated image, and refuse a module if one of its records is outside of the image.

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

use crate::loader::Linked;
use crate::{Release, release};

/// `MDT_DEPEND`.
const DEPEND: i32 = 1;
/// `MDT_MODULE`.
const MODULE: i32 = 2;
/// `MDT_VERSION`.
const VERSION: i32 = 3;
/// `SI_SUB_DUMMY`: the kernel never runs functions of this subsystem.
const DUMMY: u32 = 0;

/// The acceptable versions of an interface (`struct mod_depend`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest acceptable version.
    pub minimum: i32,
    /// The version to use if it is available.
    pub preferred: i32,
    /// The highest acceptable version.
    pub maximum: i32,
}

/// An interface that the module needs (`MODULE_DEPEND`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depend {
    /// The name of the interface.
    pub name: String,
    /// The acceptable versions of the interface.
    pub range: Range,
}

/// An interface that the module provides (`MODULE_VERSION`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The name of the interface.
    pub name: String,
    /// The version of the interface.
    pub version: i32,
}

/// A module of the file (`moduledata_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleData {
    /// The address of the record, which identifies the module.
    pub record: u64,
    /// The name of the module.
    pub name: String,
    /// The address of the handler, `int (*evhand)(module_t, int, void *)`; 0 if there is none.
    pub handler: u64,
    /// The handler's last argument.
    pub private: u64,
}

/// A function that runs when the file is loaded or unloaded (`struct sysinit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysInit {
    /// The subsystem, by which functions are sorted.
    pub subsystem: u32,
    /// The position among the functions of the same subsystem.
    pub order: u32,
    /// The address of the function, `void (*)(const void *)`.
    pub function: u64,
    /// The argument of the function.
    pub data: u64,
}

/// The records of a file for the kernel linker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The modules of the file.
    pub modules: Vec<ModuleData>,
    /// The interfaces that the file provides.
    pub versions: Vec<Version>,
    /// The interfaces that the file needs.
    pub depends: Vec<Depend>,
    /// The functions to run at load, in order.
    pub sysinits: Vec<SysInit>,
    /// The functions to run at unload, in order.
    pub sysuninits: Vec<SysInit>,
}

/// The error if a record of a linker set is outside of the module, or contains an invalid pointer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("set_{set} has a record at {address:#x} that cannot be used")]
pub struct BadRecord {
    /// The name of the set.
    pub set: &'static str,
    /// The record's address in the set.
    pub address: u64,
}

fn i32_at(bytes: &[u8], offset: usize) -> i32 {
    bytes[offset..].first_chunk().map_or(0, |&field| i32::from_le_bytes(field))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..].first_chunk().map_or(0, |&field| u64::from_le_bytes(field))
}

/// Reads a `struct sysinit`, whose size differs from release to release.
fn read_sysinit(image: &Linked, release: Release, address: u64) -> Option<SysInit> {
    let header = image.read::<8>(address)?;
    let functions = address.checked_add(release::sysinit_function(release) as u64)?;
    let functions = image.read::<16>(functions)?;
    Some(SysInit {
        subsystem: i32_at(header, 0) as u32,
        order: i32_at(header, 4) as u32,
        function: u64_at(functions, 0),
        data: u64_at(functions, 8),
    })
}

impl Metadata {
    /// Reads `modmetadata_set`: the modules and interfaces of an image. The linker reads this set first.
    ///
    /// # Errors
    /// If a record is outside of the module.
    pub fn read_modules(image: &Linked) -> Result<Self, BadRecord> {
        let mut all = Self::default();
        for address in image.set("modmetadata_set") {
            all.read_metadata(image, address)
                .ok_or(BadRecord { set: "modmetadata_set", address })?;
        }
        Ok(all)
    }

    /// Reads `sysinit_set` and `sysuninit_set`.
    ///
    /// # Errors
    /// If a record is outside of the module, or its function is neither a function of the module nor a function of the kernel
    /// (`is_kernel_function`).
    pub fn read_inits(
        &mut self,
        image: &Linked,
        release: Release,
        is_kernel_function: &dyn Fn(u64) -> bool,
    ) -> Result<(), BadRecord> {
        let callable = |function| image.starts_function(function) || is_kernel_function(function);
        let read = |set: &'static str| -> Result<Vec<SysInit>, BadRecord> {
            let mut list = Vec::new();
            for address in image.set(set) {
                let record = read_sysinit(image, release, address);
                let record = record.ok_or(BadRecord { set, address })?;
                if record.subsystem == DUMMY {
                    continue;
                }
                if !callable(record.function) {
                    return Err(BadRecord { set, address });
                }
                list.push(record);
            }
            Ok(list)
        };
        let key = |record: &SysInit| (record.subsystem, record.order);
        self.sysinits = read("sysinit_set")?;
        self.sysinits.sort_by_key(key);
        // Unloading runs them in reverse order, except that entries with equal keys keep their order: see
        // linker_file_sysuninit() in sys/kern/kern_linker.c.
        self.sysuninits = read("sysuninit_set")?;
        self.sysuninits.sort_by_key(|record| core::cmp::Reverse(key(record)));
        Ok(())
    }

    fn read_metadata(&mut self, image: &Linked, address: u64) -> Option<()> {
        let record = image.read::<24>(address)?;
        let data = u64_at(record, 8);
        // A name need not be UTF-8: it is only compared and printed.
        let text = |at| Some(image.c_str(at)?.to_string_lossy().into_owned());
        let name = || text(u64_at(record, 16));
        match i32_at(record, 4) {
            DEPEND => {
                let range = image.read::<12>(data)?;
                let range = Range {
                    minimum: i32_at(range, 0),
                    preferred: i32_at(range, 4),
                    maximum: i32_at(range, 8),
                };
                self.depends.push(Depend { name: name()?, range });
            }
            MODULE => {
                let module = image.read::<24>(data)?;
                let handler = u64_at(module, 8);
                if handler != 0 && !image.starts_function(handler) {
                    return None;
                }
                self.modules.push(ModuleData {
                    record: data,
                    name: text(u64_at(module, 0))?,
                    handler,
                    private: u64_at(module, 16),
                });
            }
            VERSION => {
                let version = i32_at(image.read::<4>(data)?, 0);
                self.versions.push(Version { name: name()?, version });
            }
            // The loader ignores MDT_PNP_INFO and unknown types.
            _ => {}
        }
        Some(())
    }
}
