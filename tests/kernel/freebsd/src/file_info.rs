//! Loaded files, as the linker names them to other parts of the kernel.

use alloc::string::String;

/// A loaded file, as kldstat(8) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number; the kernel is 1.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its address.
    pub base: u64,
    /// Bytes it takes.
    pub size: usize,
}
