//! Modules for FreeBSD.

mod damage;
mod kernels;
mod native;
mod relocatable;
mod relocatable_fixture;
mod shared;
mod shared_fixture;
mod unnoticed;

use super::{damaged, said_of};
use crate::check::{Against, Finding, FreeBsdSummary, freebsd_module};

/// Checks a module by itself.
fn module(file: &[u8]) -> Result<FreeBsdSummary, Vec<Finding>> {
    freebsd_module(file, Against::default())
}

/// A record that starts with its size and has a name's length 8 bytes after `name`.
fn record(size: usize, name: usize, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..4].copy_from_slice(&u32::try_from(size).expect("records are small").to_le_bytes());
    bytes[name + 8..name + 16].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Returns the constants of a module: its strings, then the `mod_metadata` of the module and of a dependency at offset 64, the
/// `moduledata` at 112, and the `mod_depend` at 136. Relocations fill in the pointers.
fn constants() -> Vec<u8> {
    let mut bytes = b"proc\0exec-success\0proc_example\0kernel\0".to_vec();
    bytes.resize(64, 0);
    bytes.extend([1_u32, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0].map(u32::to_le_bytes).concat());
    bytes.resize(KERNELS, 0);
    bytes.extend([1_500_000_u32, 1_500_000, 1_599_999].map(u32::to_le_bytes).concat());
    bytes
}

/// The offset in [`constants`] of the `mod_depend` on the kernel.
const KERNELS: usize = 136;

/// The offsets of the strings in [`constants`].
const PROC: i64 = 0;
const EXEC_SUCCESS: i64 = 5;
const PROC_EXAMPLE: i64 = 18;
const KERNEL: i64 = 31;
