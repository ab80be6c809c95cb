//! The machine-independent FreeBSD half of the stand-in kernel: the linker, SDT's processing of a module's records, and
//! layouts and constants, each with its source. Constants without a release are those of FreeBSD 15.
//!
//! The linker loads files by the same rules as FreeBSD, in the same order, with the same messages, and refuses the same files.
//! If FreeBSD would panic or corrupt memory because of a bad file, this linker refuses the file and continues.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod arm64;
pub mod eventhandler;
mod file_info;
#[cfg(test)]
mod fixture;
pub mod imgact;
pub mod kld;
pub mod linker;
pub mod loader;
pub mod release;
pub mod riscv;
pub mod sdt;

pub use dtrace_abi::freebsd::{Generation, Release};

/// Error numbers (`sys/errno.h`).
pub mod errno {
    /// No such file or directory.
    pub const ENOENT: i32 = 2;
    /// Exec format error.
    pub const ENOEXEC: i32 = 8;
    /// Cannot allocate memory.
    pub const ENOMEM: i32 = 12;
    /// Device busy.
    pub const EBUSY: i32 = 16;
    /// File exists.
    pub const EEXIST: i32 = 17;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
    /// No space left on device.
    pub const ENOSPC: i32 = 28;
    /// Operation not supported.
    pub const EOPNOTSUPP: i32 = 45;

    /// Returns the text of `strerror`.
    pub fn text(errno: i32) -> &'static str {
        match errno {
            ENOENT => "No such file or directory",
            ENOEXEC => "Exec format error",
            ENOMEM => "Cannot allocate memory",
            EBUSY => "Device busy",
            EEXIST => "File exists",
            EINVAL => "Invalid argument",
            ENOSPC => "No space left on device",
            EOPNOTSUPP => "Operation not supported",
            1 => "Operation not permitted",
            6 => "Device not configured",
            35 => "Resource temporarily unavailable",
            _ => "Unknown error",
        }
    }
}
