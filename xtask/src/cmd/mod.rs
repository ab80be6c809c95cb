//! The subcommands, one file each.

pub mod bench;
pub mod clippy_kernels;
pub mod docs;
pub mod dtrace;
pub mod embedded;
pub mod fuzz;
pub mod kernel;
pub mod machine;
pub mod test;
pub mod torture;
