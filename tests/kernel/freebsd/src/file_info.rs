//! The description of a loaded file that the linker gives to other parts of the kernel.

use alloc::string::String;

/// A loaded file, as kldstat(8) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The file's number; the kernel is file 1.
    pub id: u32,
    /// The file's name.
    pub name: String,
    /// The address at which the file is mapped.
    pub base: u64,
    /// The size in memory, in bytes.
    pub size: usize,
}
