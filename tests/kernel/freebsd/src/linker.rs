//! Records in the linker sets of a module: `struct mod_metadata`, `moduledata_t`, `struct mod_depend`,
//! `struct mod_version` (`sys/module.h`) and `struct sysinit` (`sys/kernel.h`), read out of an image.
//!
//! Everything is read by copy from an image that has been relocated, so a record is inside the module
//! or it is refused.

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
/// `SI_SUB_DUMMY`: never run.
const DUMMY: u32 = 0;

/// Versions of an interface that will do (`struct mod_depend`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest.
    pub minimum: i32,
    /// The one to be taken if it is there.
    pub preferred: i32,
    /// The highest.
    pub maximum: i32,
}

/// An interface that the module needs (`MODULE_DEPEND`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depend {
    /// Its name.
    pub name: String,
    /// The versions of FreeBSD that have it.
    pub range: Range,
}

/// An interface that the module is (`MODULE_VERSION`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its name.
    pub name: String,
    /// In which version.
    pub version: i32,
}

/// A module of the file (`moduledata_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleData {
    /// The record's address, which identifies it.
    pub record: u64,
    /// Its name.
    pub name: String,
    /// `int (*evhand)(module_t, int, void *)`, 0 for none.
    pub handler: u64,
    /// The handler's last argument.
    pub private: u64,
}

/// A function to be run when the file is loaded or unloaded (`struct sysinit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysInit {
    /// When, primarily.
    pub subsystem: u32,
    /// When, within the subsystem.
    pub order: u32,
    /// `void (*)(const void *)`.
    pub function: u64,
    /// Its argument.
    pub data: u64,
}

/// All that a file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Its modules.
    pub modules: Vec<ModuleData>,
    /// Interfaces that they provide.
    pub versions: Vec<Version>,
    /// Interfaces that they need.
    pub depends: Vec<Depend>,
    /// The functions to run at load, in order.
    pub sysinits: Vec<SysInit>,
    /// The functions to run at unload, in order.
    pub sysuninits: Vec<SysInit>,
}

/// A record of a set is not inside the module, or has a pointer out of it that has to stay inside.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("set_{set} has a record at {address:#x} that cannot be used")]
pub struct BadRecord {
    /// The set.
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

/// A `struct sysinit`, whose size differs from release to release.
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
    /// Reads `modmetadata_set`: what an image is and needs, which is looked at before anything else.
    ///
    /// # Errors
    /// When a record is not inside the module.
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
    /// When a record is not inside the module, or a function that is to be called is neither code of the
    /// module nor one of the kernel's (`is_kernel_function`).
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
        // Names are compared and shown, whatever bytes they are.
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
            // MDT_PNP_INFO and what may come: of no concern to the loader.
            _ => {}
        }
        Some(())
    }
}
