//! The interface between the linker and the kernel.

use super::{FileInfo, Linker};
use crate::Release;
use crate::loader::Machine;
use crate::sdt::{Fault, Records};
use stand_in_base::memory::Memory;

/// The parts of the kernel that the linker uses.
pub trait Kernel {
    /// Returns the machine of the kernel, which determines the format of its modules.
    fn machine(&self) -> Machine;
    /// Returns the memory for modules and the console.
    fn memory(&self) -> &dyn Memory;
    /// Returns the address of a symbol that the kernel exports.
    fn symbol(&self, name: &str) -> Option<u64>;
    /// Returns whether a function of the kernel that the records of a module may name is at `address`.
    fn is_function(&self, address: u64) -> bool;
    /// Calls `void (*)(const void *)` of a module or the kernel on behalf of a file that is mapped.
    fn call(&self, linker: &Linker<Self>, function: u64, argument: u64)
    where
        Self: Sized;
    /// Calls `int (*evhand)(module_t, int, void *)` of a module that is mapped.
    fn call_event(&self, handler: u64, module: u64, event: i32, private: u64) -> i32;
    /// Checks the SDT records of a file. Called before any code of the file runs.
    ///
    /// # Errors
    /// The first fault in the records.
    fn kld_check(&self, records: &Records) -> Result<(), Fault>;
    /// Handles the event `kld_load`: a file has been loaded and its SYSINITs have run. `records` have been checked.
    fn kld_load(&self, file: &FileInfo, records: Records, release: Release);
    /// Handles the event `kld_unload_try`: a file is about to be unloaded. Returns `false` to prevent that.
    fn kld_unload_try(&self, file: &FileInfo) -> bool;
    /// Handles the event `kld_unload`: code of the file will not run any more.
    fn kld_unload(&self, file: &FileInfo);
}
