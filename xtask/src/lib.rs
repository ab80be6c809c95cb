//! The parts of `cargo xtask`, as a library, so that tests use the same ones.

pub mod build;
pub mod check;
pub mod cmd;
pub mod link;
pub mod process;
pub mod progress;
pub mod setup;
pub mod toolchain;
pub mod workload;
pub mod workspace;
