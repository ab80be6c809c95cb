//! What the linker asks of the kernel that it is part of.

use core::fmt;

use super::{FileInfo, Linker};
use crate::Release;
use crate::loader::Machine;
use crate::sdt::{Fault, Records};
use stand_in_base::image::Image;

/// What the linker needs of the machine.
pub trait Kernel {
    /// Whose modules it loads.
    fn machine(&self) -> Machine;
    /// Reserves addresses for a module: `size` bytes, a multiple of [`PAGE`](stand_in_base::image::PAGE).
    fn reserve(&self, size: usize) -> Option<u64>;
    /// Maps an image at its base, with its protections; `false` when memory is out, and nothing is
    /// mapped then.
    fn map(&self, image: &Image) -> bool;
    /// Unmaps what [`map`](Self::map) mapped. No CPU can reach it any more afterwards.
    fn unmap(&self, base: u64, size: usize);
    /// Gives addresses back that [`reserve`](Self::reserve) gave.
    fn give_back(&self, base: u64);
    /// The address of a symbol that the kernel exports.
    fn symbol(&self, name: &str) -> Option<u64>;
    /// Whether a function of the kernel that modules may have called is at this address.
    fn is_function(&self, address: u64) -> bool;
    /// Prints a line on the console.
    fn print(&self, line: fmt::Arguments<'_>);
    /// Calls `void (*)(const void *)` of a module or the kernel on behalf of a file that is mapped.
    fn call(&self, linker: &Linker<Self>, function: u64, argument: u64)
    where
        Self: Sized;
    /// Calls `int (*evhand)(module_t, int, void *)` of a module that is mapped.
    fn call_event(&self, handler: u64, module: u64, event: i32, private: u64) -> i32;
    /// Whether a file's SDT records can be used, before any code of it runs.
    ///
    /// # Errors
    /// What is wrong with them.
    fn kld_check(&self, records: &Records) -> Result<(), Fault>;
    /// A file has been loaded, its SYSINITs done (the event `kld_load`). Its records have been checked.
    fn kld_load(&self, file: &FileInfo, records: Records, release: Release);
    /// A file is about to be unloaded (the event `kld_unload_try`): `false` if that is not to be.
    fn kld_unload_try(&self, file: &FileInfo) -> bool;
    /// A file's code will not run any more (the event `kld_unload`).
    fn kld_unload(&self, file: &FileInfo);
}
