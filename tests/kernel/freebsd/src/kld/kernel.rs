//! The kernel that the linker is part of.

use super::{FileInfo, Linker};
use crate::Release;
use crate::loader::Machine;
use crate::sdt::{Fault, Records};
use stand_in_base::memory::Memory;

/// The parts of the kernel that the linker uses.
pub trait Kernel {
    /// The machine that its modules are for.
    fn machine(&self) -> Machine;
    /// Its memory and console.
    fn memory(&self) -> &dyn Memory;
    /// The address of a symbol that the kernel exports.
    fn symbol(&self, name: &str) -> Option<u64>;
    /// Returns whether a function of the kernel that modules may have called is at this address.
    fn is_function(&self, address: u64) -> bool;
    /// Calls `void (*)(const void *)` of a module or the kernel on behalf of a file that is mapped.
    fn call(&self, linker: &Linker<Self>, function: u64, argument: u64)
    where
        Self: Sized;
    /// Calls `int (*evhand)(module_t, int, void *)` of a module that is mapped.
    fn call_event(&self, handler: u64, module: u64, event: i32, private: u64) -> i32;
    /// Whether a file's SDT records can be used, before any code of it runs.
    ///
    /// # Errors
    /// The first fault in them.
    fn kld_check(&self, records: &Records) -> Result<(), Fault>;
    /// A file has been loaded, its SYSINITs done (the event `kld_load`). Its records have been checked.
    fn kld_load(&self, file: &FileInfo, records: Records, release: Release);
    /// A file is about to be unloaded (the event `kld_unload_try`): `false` if that is not to be.
    fn kld_unload_try(&self, file: &FileInfo) -> bool;
    /// A file's code will not run any more (the event `kld_unload`).
    fn kld_unload(&self, file: &FileInfo);
}
