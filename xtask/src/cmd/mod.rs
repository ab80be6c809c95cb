//! The subcommands, one file each.

pub mod check;
pub mod kernel;
pub mod kmod;
